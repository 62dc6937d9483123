"""AscendDequant: int32 sums back to floats, with a scale for all or one per channel."""

from softnpu.base.dtypes import TensorFormat
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import FLOAT
from softnpu.ops.common.schema import Schema
from softnpu.ops.quantisation._quant import as_float, scale_of

SCHEMA = Schema(
    "AscendDequant",
    ("x", "deq_scale"),
    attrs={"sqrt_mode": False, "relu_flag": False, "dtype": 0},
    note="64-bit scales as constants",
)
_NHWC = TensorFormat.NHWC


def lower(b: Builder, n: Site) -> str:
    rank = n.rank(0)
    scale = scale_of(b, n, 1)
    if n.rank(1) == 1 and n.shape(1)[0] != 1:
        channel = rank - 1 if n.input_formats[:1] == [_NHWC] or rank < 2 else 1
        scale = b.reshape(scale, [-1 if dim == channel else 1 for dim in range(rank)])
    value = b.op("Mul", as_float(b, n, 0), scale)
    if n.attr("sqrt_mode", False):
        value = b.op("Mul", value, scale)
    if n.attr("relu_flag", False):
        value = b.op("Relu", value)
    dtype = int(n.attr("dtype", 0))
    return str(value) if dtype == FLOAT else b.cast(str(value), dtype)
