"""Acosh: inverse hyperbolic cosine."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Acosh")
lower = unary("Acosh", DOUBLES)
