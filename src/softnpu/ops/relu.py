"""Relu: the larger of x and 0."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("Relu")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Relu", n.input(0)))
