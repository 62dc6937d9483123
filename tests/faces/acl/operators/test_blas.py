"""acl.blas: products of matrices and vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acl
from tests.faces.acl.operators.support import Array, Tensor, compile_ops
from tests.support import message, ok

M, N, K = 20, 7, 33
RNG = np.random.default_rng(3)
pytestmark = pytest.mark.usefixtures("runtime")
TYPES = [(np.float16, np.float16), (np.float16, np.float32), (np.int8, np.float32), (np.int8, np.int32)]
NUMBERS = {np.float32: 0, np.float16: 1, np.int8: 2, np.int32: 3}


def values(dtype: Any, *shape: int) -> Array:
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(-9, 10, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def blocks(x: Array) -> Array:
    """NZ by its definition: blocks of 16 rows and 16 (int8: 32) columns, stored block column by block column."""
    wide = 32 if x.dtype == np.int8 else 16
    rows, columns = -(-x.shape[0] // 16), -(-x.shape[1] // wide)
    made = np.zeros((columns, rows, 16, wide), x.dtype)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            made[j // wide, i // 16, i % 16, j % wide] = x[i, j]
    return made


def stored(x: Array, trans: int) -> Array:
    return {0: x, 1: x.T.copy(), 2: blocks(x)}[trans] if trans else x


class Case:
    """Matrices on the device, and what the product must be."""

    def __init__(self, kind: Any, result: Any, trans: tuple[int, int, int] = (0, 0, 0), n: int = N) -> None:
        self.a, self.b, self.c = values(kind, M, K), values(kind, K, n), values(result, M, n)
        self.trans, self.n, self.result = trans, n, result
        self.numbers = (NUMBERS[kind], NUMBERS[kind], NUMBERS[result])
        arrays = [stored(one, way) for one, way in zip((self.a, self.b, self.c), trans, strict=True)]
        self.tensors = [Tensor(one) for one in (*arrays, np.array([2], result), np.array([3], result))]
        self.p = [one.address for one in self.tensors]

    def check(self) -> None:
        ok(acl.rt.synchronize_stream(0))
        expected = 2 * (self.a.astype(np.float64) @ self.b.astype(np.float64)) + 3 * self.c.astype(np.float64)
        found = self.tensors[2].array()
        wanted = stored(expected.astype(self.result), self.trans[2])
        tolerance = 2e-2 if self.result == np.float16 else 1e-4
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance * 4
        )

    def gemm_ex(self, leading: tuple[int, int, int] = (-1, -1, -1), compute: int = 0) -> int:
        a, b, c, alpha, beta = self.p
        x, y, z = self.numbers
        code: int = acl.blas.gemm_ex(
            *self.trans, M, self.n, K, alpha, a, leading[0], x, b, leading[1], y, beta, c, leading[2], z, compute, 0
        )
        return code


@pytest.mark.parametrize(("kind", "result"), TYPES)
def test_gemm_ex_of_all_types(kind: Any, result: Any) -> None:
    case = Case(kind, result)
    assert case.gemm_ex() == 0, message()
    case.check()


@pytest.mark.parametrize(
    "trans", [(1, 0, 0), (0, 1, 0), (1, 1, 0), (2, 0, 0), (0, 2, 0), (2, 2, 2), (0, 0, 2), (1, 2, 0)]
)
@pytest.mark.parametrize("kind", [np.float16, np.int8])
def test_transposed_and_blocked_matrices(trans: tuple[int, int, int], kind: Any) -> None:
    case = Case(kind, np.float32, trans)
    assert case.gemm_ex() == 0, message()
    case.check()


def test_natural_leading_dimensions_are_taken() -> None:
    case = Case(np.float16, np.float16)
    assert case.gemm_ex((K, N, N)) == 0
    case.check()
    case = Case(np.float16, np.float32, (1, 1, 0))
    assert case.gemm_ex((M, K, N)) == 0
    case.check()
    assert case.gemm_ex((K + 1, -1, -1)) == 100000


def test_hgemm_and_s8gemm_are_the_products_of_numpy() -> None:
    case = Case(np.float16, np.float16)
    a, b, c, alpha, beta = case.p
    ok(acl.blas.hgemm(0, 0, 0, M, N, K, alpha, a, -1, b, -1, beta, c, -1, 0, 0))
    case.check()
    case = Case(np.int8, np.int32)
    a, b, c, alpha, beta = case.p
    ok(acl.blas.s8gemm(0, 0, 0, M, N, K, alpha, a, -1, b, -1, beta, c, -1, 0, 0))
    case.check()


def test_products_with_vectors_are_those_of_numpy() -> None:
    for kind, result in TYPES:
        case = Case(kind, result, n=1)
        a, x, y, alpha, beta = case.p
        n = case.numbers
        ok(acl.blas.gemv_ex(0, M, K, alpha, a, -1, n[0], x, -1, n[1], beta, y, -1, n[2], 0, 0))
        case.check()
    case = Case(np.float16, np.float16, (1, 0, 0), n=1)
    a, x, y, alpha, beta = case.p
    ok(acl.blas.hgemv(1, M, K, alpha, a, -1, x, 1, beta, y, 1, 0, 0))
    case.check()
    case = Case(np.int8, np.int32, n=1)
    a, x, y, alpha, beta = case.p
    ok(acl.blas.s8gemv(0, M, K, alpha, a, K, x, -1, beta, y, -1, 0, 0))
    case.check()


@pytest.mark.parametrize(
    ("name", "kind", "result", "n"),
    [("gemm_ex", np.float16, np.float32, N), ("hgemm", np.float16, np.float16, N), ("s8gemm", np.int8, np.int32, N),
     ("gemv_ex", np.float16, np.float32, 1), ("hgemv", np.float16, np.float16, 1), ("s8gemv", np.int8, np.int32, 1)],
)  # fmt: skip
def test_a_handle_computes_what_the_call_computes(name: str, kind: Any, result: Any, n: int) -> None:
    case = Case(kind, result, n=n)
    sizes = (0, 0, 0, M, N, K) if "gemm" in name else (0, M, K)
    numbers = case.numbers if name.endswith("_ex") else ()
    handle = ok(getattr(acl.blas, f"create_handle_for_{name}")(*sizes, *numbers, 0))
    ok(acl.op.execute_with_handle(handle, [one.buffer for one in case.tensors], [case.tensors[2].buffer], 0))
    case.check()
    acl.op.destroy_handle(handle)


def test_what_is_refused() -> None:
    case = Case(np.float16, np.float16)
    assert case.gemm_ex(compute=1) == 100000
    a, b, c, alpha, beta = case.p
    for trans in ((3, 0, 0), (0, 3, 0), (0, 0, 1)):
        assert acl.blas.hgemm(*trans, M, N, K, alpha, a, -1, b, -1, beta, c, -1, 0, 0) == 100000
    for sizes in ((0, N, K), (M, -1, K), (M, N, 0)):
        assert acl.blas.hgemm(0, 0, 0, *sizes, alpha, a, -1, b, -1, beta, c, -1, 0, 0) == 100000
    assert acl.blas.hgemm(0, 0, 0, M, N, K, alpha, 0, -1, b, -1, beta, c, -1, 0, 0) == 100000
    assert acl.blas.hgemm(0, 0, 0, M, N, K, 0, a, -1, b, -1, beta, c, -1, 0, 0) == 100000
    assert acl.blas.gemm_ex(0, 0, 0, M, N, K, alpha, a, -1, 0, b, -1, 0, beta, c, -1, 0, 0, 0) == 100000  # all float32
    assert acl.blas.create_handle_for_hgemm(0, 0, 0, M, N, 0, 0) == (0, 100000)


def test_memory_that_is_too_small_is_noticed() -> None:
    case = Case(np.float16, np.float16)
    a, b, c, alpha, beta = case.p
    assert acl.blas.hgemm(0, 0, 0, M * 10000, N, K, alpha, a, -1, b, -1, beta, c, -1, 0, 0) != 0


def test_a_loaded_model_must_fit(tmp_path: Path) -> None:
    attrs = [{"name": f"transpose_{one}", "type": "bool", "value": False} for one in "ab"]
    shapes = [[M, K], [K, N], [M, N], [], []]
    tensors = [{"format": "ND", "type": "float16", "shape": one} for one in shapes]
    compile_ops(tmp_path, [{"op": "GEMM", "input_desc": tensors, "output_desc": tensors[2:3], "attr": attrs}])
    ok(acl.op.set_model_dir(str(tmp_path)))
    case = Case(np.float16, np.float16)
    assert case.gemm_ex() == 0, message()
    case.check()
    assert Case(np.float16, np.float32).gemm_ex() == 100024
