"""GatherV2: slices of x along an axis, which is the third input."""

from softnpu.ops._gather import gather
from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import ints
from softnpu.ops._schema import Schema

SCHEMA = Schema("GatherV2", ("x", "indices", "axis"), attrs={"batch_dims": 0}, note="axis must be a constant")


def lower(b: Builder, n: Site) -> str:
    return gather(b, n, ints(n, 2, 1)[0])
