"""The layer below the real face: here it is the same objects."""

from softnpu.flow.funclog import FlowFuncLogLevel, FlowFuncLogType
from softnpu.flow.udf import BalanceConfig, FlowMsg, FlowMsgQueue, MetaRunContext
from softnpu.flow.udf import (
    PyMetaParams as MetaParams,
)

__all__ = [
    "BalanceConfig",
    "FlowFuncLogLevel",
    "FlowFuncLogType",
    "FlowMsg",
    "FlowMsgQueue",
    "MetaParams",
    "MetaRunContext",
]
