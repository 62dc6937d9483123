"""StridedSliceD: StridedSlice with its numbers as attributes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.slicing._slices import MASKS, strided

SCHEMA = Schema("StridedSliceD", attrs={"begin": REQUIRED, "end": REQUIRED, "strides": [], **MASKS})


def lower(b: Builder, n: Site) -> str:
    begin, end = list(n.need("begin")), list(n.need("end"))
    return strided(b, n, begin, end, list(n.attr("strides") or [1] * len(begin)))
