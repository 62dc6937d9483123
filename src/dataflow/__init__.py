"""DataFlow on machines without an NPU: graphs of functions and models, fed and fetched from."""

from typing import TYPE_CHECKING

from softnpu.base.cann import real_cann as _real_cann

if _found := _real_cann():
    raise ImportError(
        f"a real CANN is installed at {_found}, so softnpu's dataflow steps aside. To use the NPU, put "
        f"{_found}/python/site-packages first in PYTHONPATH (source its set_env.sh); to use softnpu all the same, set "
        "SOFTNPU_FACE=softnpu."
    )

from dataflow import utils
from dataflow.data_type import (
    DT_BOOL,
    DT_DOUBLE,
    DT_FLOAT,
    DT_FLOAT16,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_STRING,
    DT_UINT8,
    DT_UINT16,
    DT_UINT32,
    DT_UINT64,
)
from dataflow.dataflow import (
    CountBatch,
    FlowData,
    FlowFlag,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowInfo,
    FlowNode,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    Tensor,
    TensorDesc,
    TimeBatch,
    alloc_tensor,
    finalize,
    init,
)
from dataflow.pyflow import method, pyflow
from dataflow.utils.msg_type_register import msg_type_register
from dataflow.utils.utils import (
    DfAbortException,
    DfException,
    get_running_device_id,
    get_running_instance_id,
    get_running_instance_num,
)

if TYPE_CHECKING:
    from softnpu.flow.drawing.npu_model import npu_model as npu_model

__all__ = [
    "DT_BOOL",
    "DT_DOUBLE",
    "DT_FLOAT",
    "DT_FLOAT16",
    "DT_INT8",
    "DT_INT16",
    "DT_INT32",
    "DT_INT64",
    "DT_STRING",
    "DT_UINT8",
    "DT_UINT16",
    "DT_UINT32",
    "DT_UINT64",
    "CountBatch",
    "DfAbortException",
    "DfException",
    "FlowData",
    "FlowFlag",
    "FlowGraph",
    "FlowGraphProcessPoint",
    "FlowInfo",
    "FlowNode",
    "Framework",
    "FuncProcessPoint",
    "GraphProcessPoint",
    "Tensor",
    "TensorDesc",
    "TimeBatch",
    "alloc_tensor",
    "finalize",
    "get_running_device_id",
    "get_running_instance_id",
    "get_running_instance_num",
    "init",
    "method",
    "msg_type_register",
    "npu_model",
    "pyflow",
    "utils",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "npu_model":  # it looks for torch when it is used
        from softnpu.flow.drawing.npu_model import npu_model

        globals()["npu_model"] = npu_model
        return npu_model
    raise AttributeError(f"module 'dataflow' has no attribute {name!r}")
