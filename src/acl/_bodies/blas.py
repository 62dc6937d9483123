"""Bodies of `acl.blas`: products of matrices and vectors, which run the operator GEMM."""

from __future__ import annotations

from softnpu.executor.single_op.gemm import HALF, INT8, Product, buffers
from softnpu.executor.single_op.table import table
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream

_N = 0


def _run(
    product: Product, compute: int, leading: tuple[int, ...], pointers: tuple[int, int, int, int, int], stream: Stream
) -> None:
    """Pointers are a, b, c, alpha, beta."""
    product.check(compute, leading)
    owner = process()
    in_descs, out_descs = product.descriptions()
    inputs = (in_descs, buffers(in_descs, pointers))
    outputs = (out_descs, buffers(out_descs, pointers[2:3]))
    table(owner).execute(owner, "GEMM", inputs, outputs, product.attributes(), stream)


def _handle(product: Product, compute: int) -> int:
    product.check(compute)
    owner = process()
    prepared = table(owner).prepare("GEMM", *product.descriptions(), product.attributes(), owner.memory.strict)
    return owner.handles.add("op_handle", prepared)


# ---- matrix by matrix ------------------------------------------------------------------------------------------------


def gemm_ex(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, dt_a: int, b: int, ldb: int,
    dt_b: int, beta: int, c: int, ldc: int, dt_c: int, type: int, stream: Stream,
) -> None:  # fmt: skip
    _run(
        Product((trans_a, trans_b, trans_c), m, n, k, (dt_a, dt_b, dt_c)),
        type,
        (lda, ldb, ldc),
        (a, b, c, alpha, beta),
        stream,
    )


def create_handle_for_gemm_ex(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, dt_a: int, dt_b: int, dt_c: int, type: int
) -> int:
    return _handle(Product((trans_a, trans_b, trans_c), m, n, k, (dt_a, dt_b, dt_c)), type)


def hgemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, b: int, ldb: int, beta: int,
    c: int, ldc: int, type: int, stream: Stream,
) -> None:  # fmt: skip
    _run(Product((trans_a, trans_b, trans_c), m, n, k, HALF), type, (lda, ldb, ldc), (a, b, c, alpha, beta), stream)


def create_handle_for_hgemm(trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, type: int) -> int:
    return _handle(Product((trans_a, trans_b, trans_c), m, n, k, HALF), type)


def s8gemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, b: int, ldb: int, beta: int,
    c: int, ldc: int, type: int, stream: Stream,
) -> None:  # fmt: skip
    _run(Product((trans_a, trans_b, trans_c), m, n, k, INT8), type, (lda, ldb, ldc), (a, b, c, alpha, beta), stream)


def create_handle_for_s8gemm(trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, type: int) -> int:
    return _handle(Product((trans_a, trans_b, trans_c), m, n, k, INT8), type)


# ---- matrix by vector ------------------------------------------------------------------------------------------------


def gemv_ex(
    trans_a: int, m: int, n: int, alpha: int, a: int, lda: int, dt_a: int, x: int, incx: int, dt_x: int, beta: int, y: int,
    incy: int, dt_y: int, type: int, stream: Stream,
) -> None:  # fmt: skip
    _run(
        Product((trans_a, _N, _N), m, 1, n, (dt_a, dt_x, dt_y)), type, (lda, incx, incy), (a, x, y, alpha, beta), stream
    )


def create_handle_for_gemv_ex(trans_a: int, m: int, n: int, dt_a: int, dt_x: int, dt_y: int, type: int) -> int:
    return _handle(Product((trans_a, _N, _N), m, 1, n, (dt_a, dt_x, dt_y)), type)


def hgemv(
    trans_a: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
    type: int,
    stream: Stream,
) -> None:
    _run(Product((trans_a, _N, _N), m, 1, n, HALF), type, (lda, incx, incy), (a, x, y, alpha, beta), stream)


def create_handle_for_hgemv(trans_a: int, m: int, n: int, type: int) -> int:
    return _handle(Product((trans_a, _N, _N), m, 1, n, HALF), type)


def s8gemv(
    trans_a: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    x: int,
    incx: int,
    beta: int,
    y: int,
    incy: int,
    type: int,
    stream: Stream,
) -> None:
    _run(Product((trans_a, _N, _N), m, 1, n, INT8), type, (lda, incx, incy), (a, x, y, alpha, beta), stream)


def create_handle_for_s8gemv(trans_a: int, m: int, n: int, type: int) -> int:
    return _handle(Product((trans_a, _N, _N), m, 1, n, INT8), type)
