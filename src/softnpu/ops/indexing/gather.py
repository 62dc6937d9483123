"""Gather: slices of x along its first axis, or the first after the batch."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.indexing._gather import gather

SCHEMA = Schema("Gather", ("x", "indices"), attrs={"validate_indices": True, "batch_dims": 0})


def lower(b: Builder, n: Site) -> str:
    return gather(b, n, max(int(n.attr("batch_dims", 0)), 0))
