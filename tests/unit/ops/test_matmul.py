"""Products of matrices against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import op
from tests.unit.ops.support import (
    BLOB,
    MATRIX,
    OTHER,
    RNG,
    WHOLE,
    Array,
    Const,
    close,
    compute,
    floats,
    match,
    rand,
    run,
    same,
)

WITH_ATTRIBUTES: list[tuple[str, dict[str, Any], Any]] = [
    ("Trilu", {"upper": 0}, np.tril(MATRIX)),
]


@pytest.mark.parametrize(("kind", "attrs", "expected"), WITH_ATTRIBUTES)
def test_with_attributes(kind: str, attrs: dict[str, Any], expected: Any) -> None:
    close(run(kind, [MATRIX], **attrs)[0], expected)


def test_einsum_and_determinant() -> None:
    y = floats(3, 8)
    close(run("Einsum", [MATRIX, y], equation="ij,kj->ik")[0], MATRIX @ y.T)
    close(run("MatrixDeterminant", [floats(2, 3, 3) * 0 + np.diag([1, 2, 3]).astype(np.float32)])[0], [6, 6])


@pytest.mark.parametrize(
    ("kind", "result"), [(np.float16, np.float16), (np.float16, np.float32), (np.float32, np.float32)]
)
def test_gemm_of_floats(kind: Any, result: Any) -> None:
    a, b, c = floats(5, 3).astype(kind), floats(5, 4).astype(kind), floats(3, 4).astype(result)
    alpha, beta = np.array([2], result), np.array([0.5], result)
    actual = run("GEMM", [a, b, c, alpha, beta], transpose_a=True)[0]
    assert actual.dtype == result
    close(actual, 2 * (a.T.astype(np.float64) @ b.astype(np.float64)) + 0.5 * c, 1e-5 if result != np.float16 else 1e-2)


@pytest.mark.parametrize("result", [np.int32, np.float32])
def test_gemm_of_int8(result: Any) -> None:
    a, b = RNG.integers(-128, 128, (4, 6), np.int8), RNG.integers(-128, 128, (5, 6), np.int8)
    c = RNG.integers(-9, 9, (4, 5)).astype(result)
    actual = run("GEMM", [a, b, c, np.array([3], result), np.array([2], result)], transpose_b=True)[0]
    np.testing.assert_array_equal(actual, 3 * (a.astype(np.int64) @ b.T.astype(np.int64)) + 2 * c)


def test_triangles() -> None:
    np.testing.assert_array_equal(run("Trilu", [MATRIX, Const(np.array(1, np.int32))])[0], np.triu(MATRIX, 1))


def test_products() -> None:
    a, b = floats(3, 4), floats(4, 5)
    bias = floats(5)
    for kind in ("MatMul", "MatMulV2"):
        same(compute(kind, a, b), a @ b)
        same(compute(kind, a.T.copy(), b.T.copy(), transpose_x1=True, transpose_x2=True), a @ b)
        same(compute(kind, a, b, bias), a @ b + bias)
    stack = floats(2, 3, 4)
    for kind in ("BatchMatMul", "BatchMatMulV2"):
        same(compute(kind, stack, floats(2, 4, 5) * 0 + b), stack @ b)
        same(compute(kind, stack.transpose(0, 2, 1).copy(), b.T.copy(), adj_x1=True, adj_x2=True), stack @ b)
    same(compute("BatchMatMulV2", stack, b, bias), stack @ b + bias)
    same(compute("MatMul", WHOLE, OTHER, transpose_x2=True), WHOLE @ OTHER.T)
    with pytest.raises(AtcError, match="offset"):
        compute("MatMulV2", a, b, offset_x=3)


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "BatchMatMul": (
        [rand(2, 3, 4), rand(2, 5, 4, seed=2)],
        {"adj_x2": True},
        rand(2, 3, 4) @ rand(2, 5, 4, seed=2).transpose(0, 2, 1),
    ),
    "FullyConnection": (
        [BLOB, rand(30, 3), rand(3)],
        {"num_output": 3, "axis": 2, "transpose": True},
        BLOB.reshape(2, 4, 30) @ rand(30, 3) + rand(3),
    ),
    "MatrixInverse": ([rand(2, 3, 3)], {}, np.linalg.inv(rand(2, 3, 3).astype(np.float64)).astype(np.float32)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-4 if kind == "MatrixInverse" else 1e-5)
