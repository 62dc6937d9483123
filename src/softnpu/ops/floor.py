"""Floor: the largest integer that is not above x."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Floor")
lower = unary("Floor")
