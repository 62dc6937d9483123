"""Reciprocal: 1 / x."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Reciprocal")
lower = unary("Reciprocal")
