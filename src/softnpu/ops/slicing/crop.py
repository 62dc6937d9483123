"""Crop: the piece of x that has the size of another tensor, from `axis` on."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Crop", ("x", "size"), attrs={"axis": 2, "offsets": []})


def lower(b: Builder, n: Site) -> str:
    rank = n.rank()
    (axis,) = axes_of(n, [int(n.attr("axis", 2))], rank)
    axes = list(range(axis, rank))
    offsets = [int(dim) for dim in n.attr("offsets") or [0]]
    if len(offsets) == 1:
        offsets *= len(axes)
    if len(offsets) != len(axes) or n.rank(1) != rank:
        raise OpError(
            f"Crop {n.name!r} has {len(offsets)} offsets for {len(axes)} dims; give one, or one per dim from the axis on"
        )
    sizes = [n.shape(1)[dim] for dim in axes]
    for dim, offset, size in zip(axes, offsets, sizes, strict=True):
        if size < 0 or not 0 <= offset <= n.shape()[dim] - size:
            raise OpError(
                f"Crop {n.name!r} cuts {size} from {offset} on out of dim {dim} of {list(n.shape())}; it must lie inside"
            )
    return b.slice(n.input(0), offsets, [low + size for low, size in zip(offsets, sizes, strict=True)], axes)
