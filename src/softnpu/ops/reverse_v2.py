"""ReverseV2: x backwards along axes."""

from softnpu.ops._layout import axes_of
from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import ints
from softnpu.ops._schema import Schema
from softnpu.ops._slices import FAR

SCHEMA = Schema("ReverseV2", ("x", "axis"), note="axis must be a constant")


def lower(b: Builder, n: Site) -> str:
    axes = axes_of(n, ints(n, 1), n.rank(0))
    if not axes:
        return str(b.op("Identity", n.input(0)))
    return b.slice(n.input(0), [-1] * len(axes), [-FAR] * len(axes), axes, [-1] * len(axes))
