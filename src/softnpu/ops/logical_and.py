"""LogicalAnd: x1 and x2."""

from softnpu.ops._math import binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("LogicalAnd", ("x1", "x2"))
lower = binary("And")
