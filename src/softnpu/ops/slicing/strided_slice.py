"""StridedSlice: a part of x by begin, end and stride per dim, with TensorFlow's masks."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints, known
from softnpu.ops.common.schema import Schema
from softnpu.ops.slicing._slices import MASKS, computed, strided

SCHEMA = Schema(
    "StridedSlice", ("x", "begin?", "end?", "strides?"), attrs=dict(MASKS), note="strides must be a constant"
)


def lower(b: Builder, n: Site) -> str:
    if not n.has(1) and "begin" in n.attrs:  # NPUIndexing of ONNX files
        return strided(b, n, *([int(number) for number in n.need(name)] for name in ("begin", "end", "strides")))
    if known(n, 1) is None or known(n, 2) is None:
        count = n.shape(1)[0]
        return computed(b, n, ints(n, 3) if n.has(3) else [1] * count)
    begin, end = (ints(n, index) for index in (1, 2))
    return strided(b, n, begin, end, ints(n, 3) if n.has(3) else [1] * len(begin))
