"""Ceil: the smallest integer that is not below x."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Ceil")
lower = unary("Ceil")
