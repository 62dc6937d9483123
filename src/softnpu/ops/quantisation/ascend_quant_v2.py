"""AscendQuantV2: round(x · scale + offset) in 8 bits, with tensors of scales along an axis."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.quantisation._quant import as_float, rounded

SCHEMA = Schema(
    "AscendQuantV2",
    ("x", "scale", "offset?"),
    attrs={"sqrt_mode": False, "round_mode": "round", "dst_type": 2, "axis": -1},
)


def lower(b: Builder, n: Site) -> str:
    axis, rank = int(n.attr("axis", -1)) % n.rank(0), n.rank(0)
    scale = _along(b, n, 1, axis, rank)
    value = b.op("Mul", as_float(b, n, 0), scale)
    if n.attr("sqrt_mode", False):
        value = b.op("Mul", value, scale)
    if n.has(2):
        value = b.op("Add", value, _along(b, n, 2, axis, rank))
    return rounded(b, n, str(value), str(n.attr("round_mode", "round")), int(n.attr("dst_type", 2)))


def _along(b: Builder, n: Site, index: int, axis: int, rank: int) -> str:
    value = as_float(b, n, index)
    if n.rank(index) != 1:
        return value
    return b.reshape(value, [-1 if dim == axis else 1 for dim in range(rank)])
