"""Softsign: x / (1 + |x|)."""

from softnpu.ops._math import DOUBLES, unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Softsign")
lower = unary("Softsign", DOUBLES)
