"""LessEqual: whether x1 <= x2."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("LessEqual", ("x1", "x2"))


def lower(b: Builder, n: Site) -> str:
    if b.opset >= 12:
        return str(b.op("LessOrEqual", n.input(0), n.input(1)))
    return str(b.op("Or", b.op("Less", n.input(0), n.input(1)), b.op("Equal", n.input(0), n.input(1))))
