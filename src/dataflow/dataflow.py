"""Everything that graphs are built with."""

from softnpu.flow.application.control import finalize, init
from softnpu.flow.application.graph import FlowGraph
from softnpu.flow.application.info import FlowFlag, FlowInfo
from softnpu.flow.drawing.nodes import CountBatch, FlowData, FlowNode, FlowOutput, TimeBatch
from softnpu.flow.drawing.points import (
    FlowGraphProcessPoint,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
)
from softnpu.flow.drawing.process_point import ProcessPoint
from softnpu.flow.state import state as _state
from softnpu.flow.values.tensor import Tensor, TensorDesc, alloc_tensor

__all__ = [
    "CountBatch",
    "FlowData",
    "FlowFlag",
    "FlowGraph",
    "FlowGraphProcessPoint",
    "FlowInfo",
    "FlowNode",
    "FlowOutput",
    "Framework",
    "FuncProcessPoint",
    "GraphProcessPoint",
    "ProcessPoint",
    "Tensor",
    "TensorDesc",
    "TimeBatch",
    "alloc_tensor",
    "finalize",
    "init",
]


def __getattr__(name: str) -> object:
    if name == "_global_options":
        return _state.options
    raise AttributeError(f"module 'dataflow.dataflow' has no attribute {name!r}")
