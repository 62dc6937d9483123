"""The layer below the real face: here it is the same objects."""

from softnpu.flow.functions.funclog import FlowFuncLogLevel, FlowFuncLogType
from softnpu.flow.functions.run_context import BalanceConfig, FlowMsg, FlowMsgQueue, MetaRunContext
from softnpu.flow.functions.run_context import (
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
