"""Equal: whether x1 and x2 are equal."""

from softnpu.ops._math import binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Equal", ("x1", "x2"))
lower = binary("Equal")
