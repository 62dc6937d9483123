"""DivNoNan: x1 / x2, and 0 where x2 is 0."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("DivNoNan", ("x1", "x2"))


def lower(b: Builder, n: Site) -> str:
    zero = b.scalar(0, n.dtype(0))
    return str(b.op("Where", b.op("Equal", n.input(1), zero), zero, b.op("Div", n.input(0), n.input(1))))
