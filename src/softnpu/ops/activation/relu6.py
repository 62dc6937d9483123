"""Relu6: x limited to [0, 6]."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Relu6")


def lower(b: Builder, n: Site) -> str:
    return b.clip(n.input(0), 0.0, 6.0, max(n.dtype(), 0))
