"""Everything that graphs are built with."""

from softnpu.flow.control import finalize, init
from softnpu.flow.control import state as _state
from softnpu.flow.graph import FlowGraph
from softnpu.flow.info import FlowFlag, FlowInfo
from softnpu.flow.nodes import CountBatch, FlowData, FlowNode, FlowOutput, TimeBatch
from softnpu.flow.points import FlowGraphProcessPoint, Framework, FuncProcessPoint, GraphProcessPoint, ProcessPoint
from softnpu.flow.tensor import Tensor, TensorDesc, alloc_tensor

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
