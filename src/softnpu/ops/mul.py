"""Mul: x1 * x2."""

from softnpu.ops._math import binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Mul", ("x1", "x2"))
lower = binary("Mul")
