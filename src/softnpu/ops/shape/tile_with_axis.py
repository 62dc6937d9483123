"""TileWithAxis: x repeated along one axis."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("TileWithAxis", attrs={"tiles": REQUIRED, "axis": 1})


def lower(b: Builder, n: Site) -> str:
    (axis,) = axes_of(n, [int(n.attr("axis", 1))], n.rank())
    tiles = int(n.need("tiles"))
    if tiles < 1:
        raise OpError(f"TileWithAxis {n.name!r} repeats {tiles} times; it must be at least once")
    return str(b.op("Tile", n.input(0), b.const([tiles if dim == axis else 1 for dim in range(n.rank())])))
