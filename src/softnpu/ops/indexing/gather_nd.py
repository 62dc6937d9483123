"""GatherNd: elements or slices of x by rows of coordinates."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import int64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("GatherNd", ("x", "indices"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("GatherND", n.input(0), int64(b, n, 1)))
