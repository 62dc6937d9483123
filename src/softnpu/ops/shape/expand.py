"""Expand: x repeated to a shape, with the rules of broadcasting."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Expand", ("x", "shape"))


def lower(b: Builder, n: Site) -> str:
    shape = n.input(1) if n.dtype(1) == INT64 else b.cast(n.input(1), INT64)
    return str(b.op("Expand", n.input(0), shape))
