"""Tanh: hyperbolic tangent."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Tanh")
lower = unary("Tanh")
