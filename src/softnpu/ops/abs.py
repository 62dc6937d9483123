"""Abs: the value without its sign."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Abs")
lower = unary("Abs")
