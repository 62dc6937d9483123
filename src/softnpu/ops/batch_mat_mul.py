"""BatchMatMul: products of stacks of matrices."""

from softnpu.ops._matmul import batched
from softnpu.ops._schema import Schema

SCHEMA = Schema("BatchMatMul", ("x1", "x2"), attrs={"adj_x1": False, "adj_x2": False})
lower = batched
