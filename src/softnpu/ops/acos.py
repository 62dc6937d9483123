"""Acos: inverse cosine."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Acos")
lower = unary("Acos", DOUBLES)
