"""Tile: x repeated so often per dim."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import int64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Tile", ("x", "multiples"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Tile", n.input(0), int64(b, n, 1)))
