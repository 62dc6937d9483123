"""Gathering along an axis, also with batch dims."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT32, INT64


def gather(b: Builder, n: Site, axis: int) -> str:
    """Slices of x along an axis, chosen by the second input; `batch_dims` leading dims belong together."""
    batch = int(n.attr("batch_dims", 0))
    x, indices = n.input(0), n.input(1)
    if n.dtype(1) not in (INT32, INT64):
        indices = b.cast(indices, INT64)
    if not batch:
        return str(b.op("Gather", x, indices, axis=axis))
    rank, depth = n.rank(0), n.rank(1)
    batch += depth if batch < 0 else 0
    axis += rank if axis < 0 else 0
    if not 0 <= batch <= min(axis, depth):
        raise OpError(
            f"{n.type} {n.name!r} has batch_dims {batch} with axis {axis} and indices of {depth} dims; lower batch_dims"
        )
    moved = [*range(batch), axis, *(dim for dim in range(batch, rank) if dim != axis)]
    gathered = b.op("GatherND", b.transpose(x, moved), b.unsqueeze(b.cast(indices, INT64), [depth]), batch_dims=batch)
    between = axis - batch  # dims of x between batch and axis: they come out behind the dims of the indices
    total = rank - 1 + depth - batch
    perm = [*range(batch), *range(depth, depth + between), *range(batch, depth), *range(depth + between, total)]
    return b.transpose(str(gathered), perm) if perm != list(range(total)) else str(gathered)
