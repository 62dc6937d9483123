"""FullyConnection: x, flattened from `axis` on, times a matrix, plus a bias."""

import math

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema(
    "FullyConnection",
    ("x", "w", "b?", "offset_w?"),
    attrs={"num_output": REQUIRED, "transpose": False, "axis": 1, "offset_x": 0},
    note="w is [num_output, K], or [K, num_output] with transpose",
)


def lower(b: Builder, n: Site) -> str:
    if n.has(3) or n.attr("offset_x", 0):
        raise OpError(
            f"FullyConnection {n.name!r} has an offset, which only quantised ones use; leave offset_w and offset_x out"
        )
    (axis,) = axes_of(n, [int(n.attr("axis", 1))], n.rank())
    if n.rank(1) != 2:
        raise OpError(f"FullyConnection {n.name!r} has weights of shape {list(n.shape(1))}; they must have 2 dims")
    transposed = bool(n.attr("transpose", False))
    x, rest = n.input(0), n.shape()[axis:]
    depth, known = n.shape(1)[0 if transposed else 1], math.prod(rest)
    if -1 not in rest and known != depth:
        raise OpError(f"FullyConnection {n.name!r} has {known} values a row for weights of {depth}; they must be equal")
    if len(rest) > 1:
        x = b.reshape(x, [0] * axis + [depth])
    bias = n.inputs[2] if n.has(2) else None
    if axis == 1:
        return str(b.op("Gemm", x, n.input(1), bias, transB=int(not transposed)))
    product = str(b.op("MatMul", x, n.input(1) if transposed else b.transpose(n.input(1), [1, 0])))
    return product if bias is None else str(b.op("Add", product, bias))
