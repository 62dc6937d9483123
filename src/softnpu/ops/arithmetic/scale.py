"""Scale: x times a blob over some dims, plus another."""

from softnpu.ops.arithmetic._blob_axes import spread
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Scale", ("x", "scale", "bias?"), attrs={"axis": 1, "num_axes": 1, "scale_from_blob": True})


def lower(b: Builder, n: Site) -> str:
    scaled = str(b.op("Mul", n.input(0), spread(b, n, 1)))
    return str(b.op("Add", scaled, spread(b, n, 2))) if n.has(2) else scaled
