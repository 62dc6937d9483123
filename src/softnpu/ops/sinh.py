"""Sinh: hyperbolic sine."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Sinh")
lower = unary("Sinh", DOUBLES)
