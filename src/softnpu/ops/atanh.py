"""Atanh: inverse hyperbolic tangent."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Atanh")
lower = unary("Atanh", DOUBLES)
