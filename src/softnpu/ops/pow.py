"""Pow: x1 to the power of x2."""

from softnpu.ops._math import SMALL, binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Pow", ("x1", "x2"))
lower = binary("Pow", SMALL)
