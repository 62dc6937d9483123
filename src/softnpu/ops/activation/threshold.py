"""Threshold: 1 where x is larger than the threshold, 0 where not."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Threshold", attrs={"threshold": 0.0})


def lower(b: Builder, n: Site) -> str:
    dtype = max(n.dtype(), 0)
    return b.cast(str(b.op("Greater", n.input(0), b.scalar(float(n.attr("threshold", 0.0)), dtype))), dtype)
