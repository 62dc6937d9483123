"""BitwiseXor: bits that are set in one input only."""

from softnpu.ops._bits import bitwise
from softnpu.ops._schema import Schema

SCHEMA = Schema("BitwiseXor", ("x1", "x2"))
lower = bitwise("BitwiseXor")
