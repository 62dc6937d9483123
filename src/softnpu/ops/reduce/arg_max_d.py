"""ArgMaxD: the place of the largest element along a dimension that is an attribute."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.reduce._arg import extreme_index

SCHEMA = Schema("ArgMaxD", attrs={"dimension": REQUIRED, "dtype": 9})


def lower(b: Builder, n: Site) -> str:
    return extreme_index(b, n, "ArgMax", int(n.need("dimension")))
