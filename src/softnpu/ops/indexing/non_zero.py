"""NonZero: the places of the elements that are not 0, a row each (`transpose`: a column each)."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("NonZero", attrs={"transpose": False, "dtype": 9})


def lower(b: Builder, n: Site) -> str:
    found = b.op("NonZero", n.input(0))
    if not n.attr("transpose", False):
        found = b.transpose(str(found), [1, 0])
    dtype = int(n.attr("dtype", 9))
    return str(found) if dtype == 9 else b.cast(str(found), dtype)
