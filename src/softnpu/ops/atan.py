"""Atan: inverse tangent."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Atan")
lower = unary("Atan", DOUBLES)
