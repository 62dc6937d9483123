"""GatherV2: slices of x along an axis, which is the third input."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import Schema
from softnpu.ops.indexing._gather import gather

SCHEMA = Schema("GatherV2", ("x", "indices", "axis"), attrs={"batch_dims": 0}, note="axis must be a constant")


def lower(b: Builder, n: Site) -> str:
    return gather(b, n, ints(n, 2, 1)[0])
