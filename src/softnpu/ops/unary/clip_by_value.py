"""ClipByValue: x limited to a range."""

from softnpu.ops.common.bodies import through
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import SHORTS
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("ClipByValue", ("x", "clip_value_min", "clip_value_max"))


def lower(b: Builder, n: Site) -> str:
    def body(x: str, low: str, high: str) -> str:
        return str(b.op("Min", b.op("Max", x, low), high))

    return through(b, n, 3, SHORTS, body)
