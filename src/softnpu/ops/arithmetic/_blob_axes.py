"""How Caffe lays a small blob over some dims of a large one (Scale, Bias)."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, OpError, Site


def spread(b: Builder, n: Site, index: int) -> str:
    """An input shaped so that it meets the first one from `axis` on; a blob without dims meets everything."""
    rank, own = n.rank(0), n.rank(index)
    axis = int(n.attr("axis", 1))
    if rank < 1 or not -rank <= axis < rank:
        raise OpError(
            f"{n.type} {n.name!r} has the axis {axis} on a tensor of {rank} dims; it must lie in [{-rank}, {rank - 1}]"
        )
    axis %= rank
    if n.shape(index) in ((), (1,)):
        return b.reshape(n.input(index), [1] * rank)
    behind = rank - axis - own
    if behind < 0:
        raise OpError(f"{n.type} {n.name!r} lays {own} dims over {rank} dims from axis {axis} on; they do not fit")
    return b.unsqueeze(n.input(index), range(own, own + behind)) if behind else n.input(index)
