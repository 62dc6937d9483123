"""Tan: tangent."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Tan")
lower = unary("Tan", DOUBLES)
