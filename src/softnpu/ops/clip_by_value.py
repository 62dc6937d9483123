"""ClipByValue: x limited to a range."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import SHORTS, through
from softnpu.ops._schema import Schema

SCHEMA = Schema("ClipByValue", ("x", "clip_value_min", "clip_value_max"))


def lower(b: Builder, n: Site) -> str:
    def body(x: str, low: str, high: str) -> str:
        return str(b.op("Min", b.op("Max", x, low), high))

    return through(b, n, 3, SHORTS, body)
