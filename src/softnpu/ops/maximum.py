"""Maximum: the larger of x1 and x2."""

from softnpu.ops._math import SHORTS, binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Maximum", ("x1", "x2"))
lower = binary("Max", SHORTS)
