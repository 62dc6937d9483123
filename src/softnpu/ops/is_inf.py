"""IsInf: whether an element is infinite."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("IsInf")
lower = unary("IsInf")
