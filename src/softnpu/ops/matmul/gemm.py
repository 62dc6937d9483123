"""GEMM: alpha · op(a) · op(b) + beta · c, the operator behind acl.blas.

Half precision is accumulated in float32, int8 in int32; the result has the type of c.
"""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import FLOAT, INT8, INT32
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("GEMM", ("a", "b", "c", "alpha", "beta"), attrs={"transpose_a": False, "transpose_b": False})


def lower(b: Builder, n: Site) -> str:
    result = n.dtype(2)
    whole = n.dtype(0) == INT8
    left, right = (
        _operand(b, n, i, bool(n.attr(f"transpose_{operand}", False)), whole) for i, operand in enumerate("ab")
    )
    product = b.op("MatMulInteger", left, right) if whole else b.op("MatMul", left, right)
    working = INT32 if whole and result == INT32 else FLOAT
    if whole and working != INT32:
        product = b.cast(str(product), working)
    c, alpha, beta = (_as(b, n, i, working) for i in (2, 3, 4))
    total = b.op("Add", b.op("Mul", product, alpha), b.op("Mul", c, beta))
    return str(total) if result == working else b.cast(str(total), result)


def _operand(b: Builder, n: Site, index: int, flip: bool, whole: bool) -> str:
    x = n.input(index) if whole else _as(b, n, index, FLOAT)
    rank = n.rank(index)
    return b.transpose(x, [*range(rank - 2), rank - 1, rank - 2]) if flip else x


def _as(b: Builder, n: Site, index: int, dtype: int) -> str:
    return n.input(index) if n.dtype(index) == dtype else b.cast(n.input(index), dtype)
