"""Rint: the nearest integer, halves to the even one."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Rint")
lower = unary("Round")
