"""Rsqrt: 1 / √x."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Rsqrt")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Reciprocal", b.op("Sqrt", n.input(0))))
