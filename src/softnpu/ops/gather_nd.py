"""GatherNd: elements or slices of x by rows of coordinates."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import int64
from softnpu.ops._schema import Schema

SCHEMA = Schema("GatherNd", ("x", "indices"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("GatherND", n.input(0), int64(b, n, 1)))
