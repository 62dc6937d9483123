"""Interp: bilinear resizing with the corners kept (the layer of DeepLab and PSPNet)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "Interp",
    attrs={"height": 0, "width": 0, "zoom_factor": 1, "shrink_factor": 1, "pad_beg": 0, "pad_end": 0},
    note="pads are zero or negative, as in the original: they crop",
)


def target(n: Site, size: int, wish: int) -> int:
    """The size that a dim gets."""
    zoom, shrink = int(n.attr("zoom_factor", 1)), int(n.attr("shrink_factor", 1))
    if wish > 0:
        return wish
    if zoom < 1 or shrink < 1:
        raise OpError(f"Interp {n.name!r} has zoom_factor {zoom} and shrink_factor {shrink}; both must be positive")
    size = (size - 1) // shrink + 1
    return size + (size - 1) * (zoom - 1)


def lower(b: Builder, n: Site) -> str:
    begin, end = int(n.attr("pad_beg", 0)), int(n.attr("pad_end", 0))
    sizes = [dim + begin + end for dim in n.shape()[2:]]
    if n.rank() != 4 or begin > 0 or end > 0 or min(sizes) < 1 or -1 in n.shape()[2:]:
        raise OpError(
            f"Interp {n.name!r} cannot crop {list(n.shape())} by {begin} and {end}; give 4 known dims and pads that are not positive"
        )
    x = n.input(0)
    if begin or end:
        x = b.slice(x, [-begin] * 2, [dim + end for dim in n.shape()[2:]], [2, 3])
    wanted = [
        target(n, size, int(n.attr(attribute, 0))) for size, attribute in zip(sizes, ("height", "width"), strict=True)
    ]
    shape = b.op("Concat", b.op("Shape", x, end=2), b.const(wanted), axis=0)
    return str(b.op("Resize", x, None, None, shape, mode="linear", coordinate_transformation_mode="align_corners"))
