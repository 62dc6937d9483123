"""BatchToSpaceND: batches become blocks of pixels, then the edges are cut off."""

from softnpu.ops.blocks._blocks import spec
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("BatchToSpaceND", ("x", "block_shape", "crops"), note="block_shape and crops must be constants")


def lower(b: Builder, n: Site) -> str:
    blocks, crops, dims = spec(n)
    count = len(blocks)
    rest = dims[count:]
    x = b.reshape(n.input(0), [*blocks, -1, *dims])
    pairs = [axis for position in range(count) for axis in (count + 1 + position, position)]
    x = b.transpose(x, [count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(rest))])
    sizes = [dim * block for dim, block in zip(dims, blocks, strict=False)]
    x = b.reshape(x, [-1, *sizes, *rest])
    if any(low or high for low, high in crops):
        ends = [size - high for size, (_, high) in zip(sizes, crops, strict=True)]
        x = b.slice(x, [low for low, _ in crops], ends, range(1, count + 1))
    return x
