"""Clip: x limited to [min, max] (Caffe's layer)."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Clip", attrs={"min": REQUIRED, "max": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return b.clip(n.input(0), float(n.need("min")), float(n.need("max")), max(n.dtype(), 0))
