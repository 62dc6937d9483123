"""AxpyV1: scale·x + y with a scale per image and channel (the end of a squeeze-and-excitation block)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("AxpyV1", ("scale", "x", "y"), ("z",))


def lower(b: Builder, n: Site) -> str:
    scale, rank = n.input(0), n.rank(1)
    if n.rank(0) not in (2, rank) or rank < 2:
        raise OpError(
            f"AxpyV1 {n.name!r} has a scale of {n.rank(0)} dims for an input of {rank}; it must be batch and channel"
        )
    if n.rank(0) < rank:
        scale = b.unsqueeze(scale, range(2, rank))
    return str(b.op("Add", b.op("Mul", scale, n.input(1)), n.input(2)))
