"""Sign: -1, 0 or 1."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Sign")
lower = unary("Sign")
