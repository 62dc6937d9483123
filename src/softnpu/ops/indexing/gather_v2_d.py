"""GatherV2D: slices of x along an axis."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.indexing._gather import gather

SCHEMA = Schema("GatherV2D", ("x", "indices"), attrs={"axis": REQUIRED, "batch_dims": 0})


def lower(b: Builder, n: Site) -> str:
    return gather(b, n, int(n.need("axis")))
