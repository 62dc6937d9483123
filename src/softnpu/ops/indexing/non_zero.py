"""NonZero: the places of the elements that are not 0, a row each (`transpose`: a column each)."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("NonZero", attrs={"transpose": False, "dtype": 9})


def lower(b: Builder, n: Site) -> str:
    positions = b.op("NonZero", n.input(0))
    if not n.attr("transpose", False):
        positions = b.transpose(str(positions), [1, 0])
    dtype = int(n.attr("dtype", INT64))
    return str(positions) if dtype == INT64 else b.cast(str(positions), dtype)
