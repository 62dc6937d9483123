"""RightShift: the bits of x moved down by y; the sign stays."""

from softnpu.ops._bits import shift
from softnpu.ops._schema import Schema

SCHEMA = Schema("RightShift", ("x", "y"), ("z",))
lower = shift("RIGHT")
