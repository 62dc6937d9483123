"""Operators by their CANN names, in families: a file or a row each."""

from softnpu.ops.common.builder import NATIVE_OPSET, Builder, Call, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Operator, Schema
from softnpu.ops.register import find, types

__all__ = ["NATIVE_OPSET", "REQUIRED", "Builder", "Call", "OpError", "Operator", "Schema", "Site", "find", "types"]
