"""Softplus: log(1 + e^x)."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Softplus")
lower = unary("Softplus", DOUBLES)
