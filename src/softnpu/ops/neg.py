"""Neg: -x."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Neg")
lower = unary("Neg")
