"""NotEqual: whether x1 and x2 differ."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("NotEqual", ("x1", "x2"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Not", b.op("Equal", n.input(0), n.input(1))))
