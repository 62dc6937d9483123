"""ArgMinD: the place of the smallest element along a dimension that is an attribute."""

from softnpu.ops._arg import place
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("ArgMinD", attrs={"dimension": REQUIRED, "dtype": 9})


def lower(b: Builder, n: Site) -> str:
    return place(b, n, "ArgMin", int(n.need("dimension")))
