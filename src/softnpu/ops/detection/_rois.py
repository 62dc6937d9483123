"""Regions of interest: rows [count, 5] as Caffe has them, or columns [batch, 5, count] as Proposal makes them."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, OpError, Site


def rows(b: Builder, n: Site, index: int = 1) -> str:
    """The regions as rows of image, x1, y1, x2, y2."""
    shape = n.shape(index)
    if len(shape) == 3 and shape[1] == 5:
        return b.reshape(b.transpose(n.input(index), [0, 2, 1]), [-1, 5])
    if len(shape) != 2 or shape[1] != 5:
        raise OpError(f"{n.type} {n.name!r} has regions of shape {list(shape)}; give [count, 5] or [batch, 5, count]")
    return n.input(index)


def count(n: Site, index: int = 1) -> int:
    """How many regions there are, -1 where not known."""
    shape = n.shape(index)
    dims = (shape[0], shape[2]) if len(shape) == 3 else shape[:1]
    total = 1
    for dim in dims:
        total = -1 if dim < 0 or total < 0 else total * dim
    return total
