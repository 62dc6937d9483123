"""SliceD: Slice with its numbers as attributes."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.slicing._slices import FAR

SCHEMA = Schema("SliceD", attrs={"offsets": REQUIRED, "size": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return cut(b, n, list(n.need("offsets")), list(n.need("size")))


def cut(b: Builder, n: Site, offsets: list[int], sizes: list[int]) -> str:
    """The part that begins at the offsets."""
    if len(offsets) != len(sizes) or min([0, *offsets]) < 0 or min([0, *sizes]) < -1:
        raise OpError(
            f"{n.type} {n.name!r} has offsets {offsets} and sizes {sizes}; give equally many, sizes of -1 or more"
        )
    for axis, (offset, size, dim) in enumerate(zip(offsets, sizes, n.input_shapes[0] or (), strict=False)):
        if dim >= 0 and offset + max(size, 0) > dim:
            raise OpError(
                f"{n.type} {n.name!r} takes {size} elements from {offset} on along axis {axis}, which has {dim}"
            )
    if not offsets:
        return str(b.op("Identity", n.input(0)))
    ends = [offset + size if size >= 0 else FAR for offset, size in zip(offsets, sizes, strict=True)]
    return b.slice(n.input(0), offsets, ends, range(len(offsets)))
