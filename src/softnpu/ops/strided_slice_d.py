"""StridedSliceD: StridedSlice with its numbers as attributes."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import REQUIRED, Schema
from softnpu.ops._slices import MASKS, strided

SCHEMA = Schema("StridedSliceD", attrs={"begin": REQUIRED, "end": REQUIRED, "strides": [], **MASKS})


def lower(b: Builder, n: Site) -> str:
    begin, end = list(n.need("begin")), list(n.need("end"))
    return strided(b, n, begin, end, list(n.attr("strides") or [1] * len(begin)))
