"""ArgMaxWithK: the places and the values of the k largest elements; axis 10000 means all dims but the first, as one."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.numbers import INT32
from softnpu.ops.common.schema import Schema

NO_AXIS = 10000
SCHEMA = Schema("ArgMaxWithK", outputs=("indices", "values"), attrs={"axis": NO_AXIS, "out_max_val": False, "topk": 1})


def lower(b: Builder, n: Site) -> tuple[str, str]:
    x, axis = n.input(0), int(n.attr("axis", NO_AXIS))
    if axis == NO_AXIS:
        x, axis = b.reshape(x, [0, 1, -1, *([1] * (n.rank() - 3))]), 2
    else:
        (axis,) = axes_of(n, [axis], n.rank())
    values, indices = b.op("TopK", x, b.const([int(n.attr("topk", 1))]), outputs=2, axis=axis)
    return b.cast(indices, INT32), values
