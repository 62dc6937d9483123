"""BitwiseAnd: bits that are set in both inputs."""

from softnpu.ops._bits import bitwise
from softnpu.ops._schema import Schema

SCHEMA = Schema("BitwiseAnd", ("x1", "x2"))
lower = bitwise("BitwiseAnd")
