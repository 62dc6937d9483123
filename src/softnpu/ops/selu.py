"""Selu: the scaled exponential unit with its fixed constants."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Selu")
lower = unary("Selu", DOUBLES)
