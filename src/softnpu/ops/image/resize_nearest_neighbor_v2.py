"""ResizeNearestNeighborV2: an image of another size, each pixel taken from the nearest one."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.formats import format_of, spatial_dims
from softnpu.ops.common.schema import Schema
from softnpu.ops.image._resize import ATTRS, MANY, flags, nearest_rows, resize, wanted

SCHEMA = Schema("ResizeNearestNeighborV2", ("x", "size"), attrs=dict(ATTRS))


def lower(b: Builder, n: Site) -> str:
    corners, centres = flags(n)
    layout = format_of(n, "NHWC")
    size = wanted(n)
    axes = [layout.index("H"), layout.index("W")]
    source = spatial_dims(n, 0, layout)
    if size is not None and min(source) > 0 and max(size) <= MANY:
        x = n.input(0)
        for axis, before, after in zip(axes, source, size, strict=True):
            if before != after:
                x = str(b.op("Gather", x, b.const(nearest_rows(before, after, corners, centres)), axis=axis))
        return x
    if corners:
        return resize(b, n, n.input(0), "nearest", "align_corners", "round_prefer_ceil")
    if centres:  # floor((i + 0.5) · scale) is the nearest of (i + 0.5) · scale - 0.5, halves upward
        return resize(b, n, n.input(0), "nearest", "half_pixel", "round_prefer_ceil")
    return resize(b, n, n.input(0), "nearest", "asymmetric", "floor")
