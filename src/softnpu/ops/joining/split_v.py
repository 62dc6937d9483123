"""SplitV: parts of given sizes along an axis; one size may be -1."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema(
    "SplitV",
    ("x", "size_splits", "split_dim"),
    ("y*",),
    attrs={"num_split": REQUIRED},
    note="sizes and axis must be constants",
)


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    axis = axes_of(n, ints(n, 2, 1), n.rank(0))[0]
    sizes = ints(n, 1)
    if len(sizes) != int(n.need("num_split")):
        raise OpError(f"SplitV {n.name!r} has {len(sizes)} sizes and num_split {n.need('num_split')}; make them equal")
    if sizes.count(-1) == 1:
        whole = n.shape(0)[axis]
        if whole < 0:
            raise OpError(
                f"SplitV {n.name!r} has a size of -1 on an axis of unknown size; give the model fixed input shapes"
            )
        sizes[sizes.index(-1)] = whole - sum(sizes) - 1
    if min(sizes) < 0:
        raise OpError(f"SplitV {n.name!r} has the sizes {sizes}; none may be negative, and only one may be -1")
    return b.split(n.input(0), sizes, axis)
