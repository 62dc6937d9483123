"""Relu: the larger of x and 0."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Relu")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Relu", n.input(0)))
