"""LeftShift: the bits of x moved up by y."""

from softnpu.ops._bits import shift
from softnpu.ops._schema import Schema

SCHEMA = Schema("LeftShift", ("x", "y"), ("z",))
lower = shift("LEFT")
