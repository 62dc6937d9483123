"""BroadcastTo: x repeated along dims of size 1 to fill a shape."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import int64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("BroadcastTo", ("x", "shape"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Expand", n.input(0), int64(b, n, 1)))
