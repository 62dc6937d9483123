"""WeightQuantBatchMatmulV2: x times a weight that is stored in int8, (weight + offset) · scale."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT, INT8
from softnpu.ops.common.schema import Schema
from softnpu.ops.quantisation._quant import as_float, flip_last, rounded, scale_of

SCHEMA = Schema(
    "WeightQuantBatchMatmulV2",
    ("x", "weight", "antiquant_scale", "antiquant_offset?", "quant_scale?", "quant_offset?", "bias?"),
    attrs={"transpose_x": False, "transpose_weight": False, "antiquant_group_size": 0, "dtype": -1, "inner_precise": 0},
    note="int8 weights, no groups",
)  # fmt: skip


def lower(b: Builder, n: Site) -> str:
    if int(n.attr("antiquant_group_size", 0)) or n.dtype(1) != INT8:
        raise OpError(
            f"WeightQuantBatchMatmulV2 {n.name!r} has groups or a weight of aclDataType {n.dtype(1)}; only int8 without groups is supported"
        )
    weight = as_float(b, n, 1)
    if n.has(3):
        weight = str(b.op("Add", weight, as_float(b, n, 3)))
    weight = str(b.op("Mul", weight, as_float(b, n, 2)))
    if n.attr("transpose_weight", False):
        weight = flip_last(b, weight, n.rank(1))
    x = as_float(b, n, 0)
    if n.attr("transpose_x", False):
        x = flip_last(b, x, n.rank(0))
    y = b.op("MatMul", x, weight)
    if n.has(6):
        y = b.op("Add", y, as_float(b, n, 6))
    if n.has(4):
        y = b.op("Mul", y, scale_of(b, n, 4))
        y = b.op("Add", y, as_float(b, n, 5)) if n.has(5) else y
        return rounded(b, n, str(y), "round", INT8)
    dtype = int(n.attr("dtype", -1))
    dtype = n.dtype(0) if dtype < 0 else dtype
    return str(y) if dtype == FLOAT else b.cast(str(y), dtype)
