"""SquareSumV1: the sum of squares over axes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("SquareSumV1", attrs={"axis": REQUIRED, "keep_dims": True})


def lower(b: Builder, n: Site) -> str:
    axes = [int(axis) for axis in n.need("axis")]
    return b.reduce("SumSquare", n.input(0), axes or None, bool(n.attr("keep_dims", True)))
