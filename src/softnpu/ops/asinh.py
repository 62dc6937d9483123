"""Asinh: inverse hyperbolic sine."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Asinh")
lower = unary("Asinh", DOUBLES)
