"""Rsqrt: 1 / √x."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("Rsqrt")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Reciprocal", b.op("Sqrt", n.input(0))))
