"""SplitD: equal parts of x along an axis."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("SplitD", outputs=("y*",), attrs={"split_dim": REQUIRED, "num_split": REQUIRED})


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    return equal_parts(b, n, 0, int(n.need("split_dim")))


def equal_parts(b: Builder, n: Site, x: int, axis: int) -> tuple[str, ...]:
    """Cut input `x` into `num_split` parts."""
    count = int(n.need("num_split"))
    if not -n.rank(x) <= axis < n.rank(x):
        raise OpError(f"{n.type} {n.name!r} has the axis {axis} on a tensor of {n.rank(x)} dims")
    size = n.shape(x)[axis]
    if size < 0:
        raise OpError(f"{n.type} {n.name!r} cuts an axis of unknown size; give the model fixed input shapes")
    if count < 1 or size % count:
        raise OpError(f"{n.type} {n.name!r} cannot cut {size} elements into {count} equal parts")
    return b.split(n.input(x), [size // count] * count, axis)
