"""Operators by their CANN names: one file each."""

from softnpu.ops._lower import NATIVE_OPSET, Builder, Call, OpError, Site
from softnpu.ops._schema import REQUIRED, Operator, Schema, find, types

__all__ = ["NATIVE_OPSET", "REQUIRED", "Builder", "Call", "OpError", "Operator", "Schema", "Site", "find", "types"]
