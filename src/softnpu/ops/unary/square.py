"""Square: x²."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Square")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Mul", n.input(0), n.input(0)))
