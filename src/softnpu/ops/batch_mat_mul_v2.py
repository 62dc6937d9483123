"""BatchMatMulV2: products of stacks of matrices with a bias."""

from softnpu.ops._matmul import batched
from softnpu.ops._schema import Schema

SCHEMA = Schema(
    "BatchMatMulV2", ("x1", "x2", "bias?", "offset_w?"), attrs={"adj_x1": False, "adj_x2": False, "offset_x": 0}
)
lower = batched
