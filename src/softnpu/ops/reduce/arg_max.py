"""ArgMax: the place of the largest element along a dimension."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import Schema
from softnpu.ops.reduce._arg import extreme_index

SCHEMA = Schema("ArgMax", ("x", "dimension"), attrs={"dtype": 9}, note="dimension must be a constant")


def lower(b: Builder, n: Site) -> str:
    return extreme_index(b, n, "ArgMax", ints(n, 1, 1)[0])
