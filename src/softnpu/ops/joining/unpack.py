"""Unpack: the slices of x along an axis, without that axis."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Unpack", outputs=("y*",), attrs={"num": REQUIRED, "axis": 0})


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    axis = axes_of(n, [int(n.attr("axis", 0))], n.rank(0))[0]
    count = int(n.need("num"))
    if n.shape(0)[axis] not in (-1, count):
        raise OpError(f"Unpack {n.name!r} has num {count} for a dim of {n.shape(0)[axis]}; make them equal")
    return tuple(b.squeeze(part, [axis]) for part in b.split(n.input(0), [1] * count, axis))
