"""Sqrt: the square root."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Sqrt")
lower = unary("Sqrt")
