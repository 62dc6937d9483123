"""Inv: 1 / x, by its old name."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Inv")
lower = unary("Reciprocal")
