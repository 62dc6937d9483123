"""MatMul: the product of two matrices."""

from softnpu.ops._matmul import flat
from softnpu.ops._schema import Schema

SCHEMA = Schema("MatMul", ("x1", "x2", "bias?"), attrs={"transpose_x1": False, "transpose_x2": False})
lower = flat
