"""Products of matrices: a row each."""

from softnpu.ops.common.schema import Row, Schema
from softnpu.ops.matmul._matmul import batched, flat

PAIR = ("x1", "x2")

ROWS = (
    Row(
        Schema("MatMul", ("x1", "x2", "bias?"), attrs={"transpose_x1": False, "transpose_x2": False}),
        flat,
        "the product of two matrices",
    ),
    Row(
        Schema(
            "MatMulV2",
            ("x1", "x2", "bias?", "offset_w?"),
            attrs={"transpose_x1": False, "transpose_x2": False, "offset_x": 0},
        ),
        flat,
        "the product of two matrices with a bias",
    ),
    Row(
        Schema("BatchMatMul", PAIR, attrs={"adj_x1": False, "adj_x2": False}), batched, "products of stacks of matrices"
    ),
    Row(
        Schema(
            "BatchMatMulV2", ("x1", "x2", "bias?", "offset_w?"), attrs={"adj_x1": False, "adj_x2": False, "offset_x": 0}
        ),
        batched,
        "products of stacks of matrices with a bias",
    ),
)
