"""Invert: every bit flipped."""

from softnpu.ops._bits import bitwise
from softnpu.ops._schema import Schema

SCHEMA = Schema("Invert")
lower = bitwise("BitwiseNot")
