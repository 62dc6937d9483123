"""SplitVD: x cut into pieces of given sizes."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema(
    "SplitVD", outputs=("y*",), attrs={"size_splits": REQUIRED, "split_dim": REQUIRED, "num_split": REQUIRED}
)


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    (axis,) = axes_of(n, [int(n.need("split_dim"))], n.rank())
    sizes, size = [int(number) for number in n.need("size_splits")], n.shape()[axis]
    if sizes.count(-1) == 1 and size >= 0:
        sizes[sizes.index(-1)] = size - sum(sizes) - 1
    if not sizes or min(sizes) < 0 or (size >= 0 and sum(sizes) != size):
        raise OpError(f"SplitVD {n.name!r} cuts dim {axis} of {list(n.shape())} into {sizes}; the sum must be the size")
    return b.split(n.input(0), sizes, axis)
