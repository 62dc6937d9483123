"""SpaceToBatchND: blocks of pixels become batches, after padding with zeros."""

from softnpu.ops.blocks._blocks import spec
from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("SpaceToBatchND", ("x", "block_shape", "paddings"), note="block_shape and paddings must be constants")


def lower(b: Builder, n: Site) -> str:
    blocks, amounts, dims = spec(n)
    count = len(blocks)
    x, rest = n.input(0), dims[count:]
    if any(low or high for low, high in amounts):
        tail = [0] * len(rest)
        x = b.pad(
            x, [0, *(low for low, _ in amounts), *tail], [0, *(high for _, high in amounts), *tail], dtype=n.dtype(0)
        )
    sizes = [dim + low + high for dim, (low, high) in zip(dims, amounts, strict=False)]
    if any(size % block for size, block in zip(sizes, blocks, strict=True)):
        raise OpError(
            f"SpaceToBatchND {n.name!r} has padded dims {sizes}; they must be multiples of the blocks {blocks}"
        )
    outer = [size // block for size, block in zip(sizes, blocks, strict=True)]
    parts = [number for pair in zip(outer, blocks, strict=True) for number in pair]
    x = b.reshape(x, [-1, *parts, *rest])
    inner = [2 + 2 * position for position in range(count)]
    x = b.transpose(
        x,
        [*inner, 0, *(1 + 2 * position for position in range(count)), *range(1 + 2 * count, 1 + 2 * count + len(rest))],
    )
    return b.reshape(x, [-1, *outer, *rest])
