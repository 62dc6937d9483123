"""GatherV2D: slices of x along an axis."""

from softnpu.ops._gather import gather
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("GatherV2D", ("x", "indices"), attrs={"axis": REQUIRED, "batch_dims": 0})


def lower(b: Builder, n: Site) -> str:
    return gather(b, n, int(n.need("axis")))
