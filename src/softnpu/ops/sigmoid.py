"""Sigmoid: 1 / (1 + e^-x)."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Sigmoid")
lower = unary("Sigmoid")
