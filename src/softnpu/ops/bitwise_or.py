"""BitwiseOr: bits that are set in one input at least."""

from softnpu.ops._bits import bitwise
from softnpu.ops._schema import Schema

SCHEMA = Schema("BitwiseOr", ("x1", "x2"))
lower = bitwise("BitwiseOr")
