"""Tile: x repeated so often per dim."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import int64
from softnpu.ops._schema import Schema

SCHEMA = Schema("Tile", ("x", "multiples"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Tile", n.input(0), int64(b, n, 1)))
