"""Identity: x itself."""

from softnpu.ops._math import unary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Identity")
lower = unary("Identity")
