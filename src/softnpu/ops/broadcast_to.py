"""BroadcastTo: x repeated along dims of size 1 to fill a shape."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import int64
from softnpu.ops._schema import Schema

SCHEMA = Schema("BroadcastTo", ("x", "shape"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Expand", n.input(0), int64(b, n, 1)))
