"""ReverseV2D: the elements along some axes in the opposite order."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("ReverseV2D", attrs={"axis": REQUIRED})
_BEFORE_ALL = -(1 << 31)


def lower(b: Builder, n: Site) -> str:
    listed = n.need("axis")
    axes = axes_of(n, [listed] if isinstance(listed, int) else listed, n.rank())
    if not axes:
        return n.input(0)
    many = len(axes)
    return b.slice(n.input(0), [-1] * many, [_BEFORE_ALL] * many, axes, [-1] * many)
