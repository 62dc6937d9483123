"""Bias: x plus a blob over some dims."""

from softnpu.ops.arithmetic._blob_axes import spread
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Bias", ("x", "bias"), attrs={"axis": 1, "num_axes": 1, "bias_from_blob": True})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Add", n.input(0), spread(b, n, 1)))
