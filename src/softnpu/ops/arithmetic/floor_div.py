"""FloorDiv: x1 / x2 rounded down."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import FLOATS
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("FloorDiv", ("x1", "x2"))


def lower(b: Builder, n: Site) -> str:
    if n.dtype(0) in FLOATS:
        return str(b.op("Floor", b.op("Div", n.input(0), n.input(1))))
    whole = b.op("Sub", n.input(0), b.op("Mod", n.input(0), n.input(1)))
    return str(b.op("Div", whole, n.input(1)))
