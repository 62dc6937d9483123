"""Fill: one value in a given shape."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import int64, shape_of
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Fill", ("dims", "value"))


def lower(b: Builder, n: Site) -> str:
    value = n.input(1) if shape_of(n, 1) == () else b.reshape(n.input(1), [])
    return str(b.op("Expand", value, int64(b, n, 0)))
