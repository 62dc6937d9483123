"""Cos: cosine."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Cos")
lower = unary("Cos")
