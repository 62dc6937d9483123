"""Mod: the rest of a division, with the sign of x1."""

from softnpu.ops._math import binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("Mod", ("x1", "x2"))
lower = binary("Mod", fmod=1)
