"""MatMulV2: the product of two matrices with a bias."""

from softnpu.ops._matmul import flat
from softnpu.ops._schema import Schema

SCHEMA = Schema(
    "MatMulV2", ("x1", "x2", "bias?", "offset_w?"), attrs={"transpose_x1": False, "transpose_x2": False, "offset_x": 0}
)
lower = flat
