"""IsNan: whether an element is not a number."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("IsNan")
lower = unary("IsNaN")
