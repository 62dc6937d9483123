"""ArgMin: the place of the smallest element along a dimension."""

from softnpu.ops._arg import place
from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import ints
from softnpu.ops._schema import Schema

SCHEMA = Schema("ArgMin", ("x", "dimension"), attrs={"dtype": 9}, note="dimension must be a constant")


def lower(b: Builder, n: Site) -> str:
    return place(b, n, "ArgMin", ints(n, 1, 1)[0])
