"""ArgMaxD: the place of the largest element along a dimension that is an attribute."""

from softnpu.ops._arg import place
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("ArgMaxD", attrs={"dimension": REQUIRED, "dtype": 9})


def lower(b: Builder, n: Site) -> str:
    return place(b, n, "ArgMax", int(n.need("dimension")))
