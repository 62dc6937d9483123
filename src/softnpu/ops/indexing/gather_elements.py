"""GatherElements: values picked along a dim by an index of the result's shape."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("GatherElements", ("x", "index"), attrs={"dim": 0})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("GatherElements", n.input(0), n.input(1), axis=int(n.attr("dim", 0))))
