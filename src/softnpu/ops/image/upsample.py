"""Upsample: every pixel repeated, times a scale (the layer of YOLO v3)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Upsample", attrs={"scale": 1.0, "stride_h": 2, "stride_w": 2})


def lower(b: Builder, n: Site) -> str:
    rows, columns, scale = int(n.attr("stride_h", 2)), int(n.attr("stride_w", 2)), float(n.attr("scale", 1.0))
    if n.rank() != 4 or rows < 1 or columns < 1:
        raise OpError(
            f"Upsample {n.name!r} repeats {rows} and {columns} times over {n.rank()} dims; it takes 4 dims and positive strides"
        )
    sizes = b.const([1.0, 1.0, float(rows), float(columns)])
    repeated = str(
        b.op(
            "Resize",
            n.input(0),
            None,
            sizes,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    )
    return repeated if scale == 1.0 else str(b.op("Mul", repeated, b.scalar(scale, max(n.dtype(), 0))))
