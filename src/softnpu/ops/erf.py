"""Erf: the error function."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Erf")
lower = unary("Erf", DOUBLES)
