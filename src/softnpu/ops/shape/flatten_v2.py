"""FlattenV2: the dims from `axis` to `end_axis` become one."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("FlattenV2", attrs={"axis": 1, "end_axis": -1})


def lower(b: Builder, n: Site) -> str:
    rank, shape = n.rank(), n.shape()
    (first,) = axes_of(n, [int(n.attr("axis", 1))], rank)
    (last,) = axes_of(n, [int(n.attr("end_axis", -1))], rank)
    if last < first:
        raise OpError(f"FlattenV2 {n.name!r} goes from axis {first} to {last}; the second must not be the smaller one")
    behind = shape[last + 1 :]
    if -1 in behind:
        raise OpError(
            f"FlattenV2 {n.name!r} needs to know the dims after axis {last} of {list(shape)}; give the model fixed input shapes"
        )
    return b.reshape(n.input(0), [0] * first + [-1, *behind])
