"""ReverseV2: x backwards along axes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import Schema
from softnpu.ops.slicing._slices import FAR

SCHEMA = Schema("ReverseV2", ("x", "axis"), note="axis must be a constant")


def lower(b: Builder, n: Site) -> str:
    axes = axes_of(n, ints(n, 1), n.rank(0))
    if not axes:
        return str(b.op("Identity", n.input(0)))
    return b.slice(n.input(0), [-1] * len(axes), [-FAR] * len(axes), axes, [-1] * len(axes))
