"""Square: x²."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("Square")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Mul", n.input(0), n.input(0)))
