"""QuantBatchMatmulV3: a product of int8 matrices, scaled per column and per row."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import FLOAT, INT8, INT32
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.quantisation._quant import as_float, flip_last, rounded, scale_of

SCHEMA = Schema(
    "QuantBatchMatmulV3", ("x1", "x2", "scale", "offset?", "bias?", "pertoken_scale?"),
    attrs={"dtype": REQUIRED, "transpose_x1": False, "transpose_x2": False}, note="64-bit scales as constants",
)  # fmt: skip


def lower(b: Builder, n: Site) -> str:
    left, right = (
        flip_last(b, n.input(i), n.rank(i)) if n.attr(f"transpose_x{i + 1}", False) else n.input(i) for i in (0, 1)
    )
    product = b.op("MatMulInteger", left, right)
    early = n.has(4) and n.dtype(4) == INT32
    if early:
        product = b.op("Add", product, n.input(4))
    dtype = int(n.need("dtype"))
    value = b.op("Mul", b.cast(str(product), FLOAT), scale_of(b, n, 2))
    if n.has(5):
        value = b.op("Mul", value, b.unsqueeze(as_float(b, n, 5), [-1]))
    if n.has(4) and not early:
        value = b.op("Add", value, as_float(b, n, 4))
    if dtype == INT8:
        if n.has(3):
            value = b.op("Add", value, as_float(b, n, 3))
        return rounded(b, n, str(value), "round", INT8)
    return str(value) if dtype == FLOAT else b.cast(str(value), dtype)
