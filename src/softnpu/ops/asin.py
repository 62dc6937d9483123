"""Asin: inverse sine."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Asin")
lower = unary("Asin", DOUBLES)
