"""Div: x1 / x2; integers truncate."""

from softnpu.ops._math import binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Div", ("x1", "x2"))
lower = binary("Div")
