"""Moving blocks of pixels between space and depth, or space and batch."""

from __future__ import annotations

from typing import Any

from softnpu.ops.common.bodies import through
from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, first, format_of
from softnpu.ops.common.inputs import ints, pairs
from softnpu.ops.common.numbers import DOUBLE, FLOAT, INT8, INT16, INT32, UINT8, UINT16

_VIA: dict[int, int] = {
    INT8: FLOAT,
    UINT8: FLOAT,
    INT16: FLOAT,
    UINT16: FLOAT,
    INT32: DOUBLE,
}  # exact ways for types that engines cannot move


def depth(b: Builder, n: Site, kind: str, **attrs: Any) -> str:
    """SpaceToDepth or DepthToSpace in the data format of the node."""
    layout = format_of(n, "NHWC")
    size = int(n.need("block_size"))
    if size < 1:
        raise OpError(f"{n.type} {n.name!r} has the block size {size}; it must be positive")
    return through(
        b, n, 1, _VIA, lambda x: back(b, str(b.op(kind, first(b, x, layout), blocksize=size, **attrs)), layout)
    )


def spec(n: Site) -> tuple[list[int], list[tuple[int, int]], list[int]]:
    """Block sizes, (before, after) amounts, and the dims of x after the batch, which must be known."""
    blocks = ints(n, 1)
    before, after = pairs(n, n.constant(2))
    amounts = list(zip(before, after, strict=True))
    dims = list(n.shape(0)[1:])
    if len(blocks) != len(amounts) or len(blocks) > len(dims):
        raise OpError(
            f"{n.type} {n.name!r} has {len(blocks)} block sizes and {len(amounts)} pairs for {len(dims)} dims"
        )
    if min(blocks, default=1) < 1:
        raise OpError(f"{n.type} {n.name!r} has block sizes {blocks}; all must be positive")
    if min(dims, default=0) < 0:
        raise OpError(f"{n.type} {n.name!r} needs to know all dims but the batch; give the model fixed input shapes")
    return blocks, amounts, dims
