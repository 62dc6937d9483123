"""Matrix products with transposed operands."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOATS, INT8, INT32, UINT8


def flat(b: Builder, n: Site) -> str:
    """Product of two matrices; `transpose_x1` and `transpose_x2` turn them first, a third input is added per column."""
    return multiply(b, n, bool(n.attr("transpose_x1", False)), bool(n.attr("transpose_x2", False)))


def batched(b: Builder, n: Site) -> str:
    """Products of stacks of matrices that broadcast; `adj_x1` and `adj_x2` turn the matrices first."""
    return multiply(b, n, bool(n.attr("adj_x1", False)), bool(n.attr("adj_x2", False)))


def multiply(b: Builder, n: Site, turn1: bool, turn2: bool) -> str:
    """x1 · x2 + bias."""
    if n.has(3) or n.attr("offset_x", 0):
        raise OpError(
            f"{n.type} {n.name!r} has an offset, which only quantised products use; leave offset_w and offset_x out"
        )
    bias = n.inputs[2] if n.has(2) else None
    flat_inputs = all(shape is not None and len(shape) == 2 for shape in n.input_shapes[:2])
    if flat_inputs and n.dtype(0) in FLOATS and (turn1 or turn2 or bias):
        return str(b.op("Gemm", n.input(0), n.input(1), bias, transA=int(turn1), transB=int(turn2)))
    x1 = _turned(b, n, 0) if turn1 else n.input(0)
    x2 = _turned(b, n, 1) if turn2 else n.input(1)
    if n.dtype(0) in (INT8, UINT8):  # products of bytes are summed in int32, as the cube does it
        x1, x2 = b.cast(x1, INT32), b.cast(x2, INT32)
    product = str(b.op("MatMul", x1, x2))
    return product if bias is None else str(b.op("Add", product, bias))


def _turned(b: Builder, n: Site, index: int) -> str:
    rank = n.rank(index)
    return b.transpose(n.input(index), [*range(rank - 2), rank - 1, rank - 2])
