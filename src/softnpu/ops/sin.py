"""Sin: sine."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Sin")
lower = unary("Sin")
