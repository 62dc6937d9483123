"""SquaredDifference: (x1 - x2)²."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("SquaredDifference", ("x1", "x2"))


def lower(b: Builder, n: Site) -> str:
    difference = b.op("Sub", n.input(0), n.input(1))
    return str(b.op("Mul", difference, difference))
