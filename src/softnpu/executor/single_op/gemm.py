"""Matrix products of `acl.blas`: the descriptions of the operator GEMM behind them."""

from __future__ import annotations

from dataclasses import dataclass

from softnpu.base.dtypes import DType, TensorFormat, element_size, numpy_name
from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.single_op.match import OpAttr
from softnpu.ops.common.private_formats import cube_width, stored_shape

_N, _T, _NZ = 0, 1, 2
_ND, _FRACTAL_NZ = TensorFormat.ND, TensorFormat.FRACTAL_NZ
_FLOAT, _HALF, _INT8, _INT32 = DType.FLOAT, DType.FLOAT16, DType.INT8, DType.INT32
_TYPES = ((_HALF, _HALF, _HALF), (_HALF, _HALF, _FLOAT), (_INT8, _INT8, _FLOAT), (_INT8, _INT8, _INT32))
HALF, INT8 = _TYPES[0], _TYPES[3]


@dataclass(frozen=True)
class Product:
    """C = alpha · op(A) · op(B) + beta · C with A m×k, B k×n, C m×n."""

    trans: tuple[int, int, int]
    m: int
    n: int
    k: int
    types: tuple[int, int, int]

    def check(self, compute: int, leading: tuple[int, ...] = ()) -> None:
        """Raise for what the manual does not allow; leading dimensions are -1 or those of a matrix without gaps."""
        for matrix, trans, allowed in zip("abc", self.trans, ((_N, _T, _NZ), (_N, _T, _NZ), (_N, _NZ)), strict=True):
            if trans not in allowed:
                raise _invalid(
                    f"trans_{matrix} is {trans}", f"use one of {allowed} (0 as it is, 1 transposed, 2 NZ blocks)"
                )
        if min(self.m, self.n, self.k) <= 0:
            raise _invalid(f"m, n, k are {self.m}, {self.n}, {self.k}", "all of them must be positive")
        if self.types not in _TYPES:
            raise _invalid(
                f"the data types of A, B, C are {self.types}",
                f"use one of {_TYPES} (0 float, 1 float16, 2 int8, 3 int32)",
            )
        if compute != 0:
            raise _invalid(f"the computation type is {compute}", "only 0 (high precision) is possible")
        for dimension, natural in zip(leading, self._natural(), strict=False):
            if dimension not in (-1, natural):
                raise _invalid(
                    f"a leading dimension is {dimension}",
                    f"pass -1 (or {natural}, the size of a row); gaps between rows are not possible",
                )

    def _natural(self) -> tuple[int, int, int]:
        return (self.m if self.trans[0] == _T else self.k, self.k if self.trans[1] == _T else self.n, self.n)

    def descriptions(self) -> tuple[list[TensorDesc], list[TensorDesc]]:
        """Inputs a, b, c, alpha, beta and the output."""
        a = _matrix(self.types[0], self.trans[0], self.m, self.k)
        b = _matrix(self.types[1], self.trans[1], self.k, self.n)
        c = _matrix(self.types[2], self.trans[2], self.m, self.n)
        scalars = [TensorDesc(self.types[2], [], _ND) for _ in range(2)]
        return [a, b, c, *scalars], [c.copy()]

    def attributes(self) -> OpAttr:
        """Which matrices are transposed."""
        attr = OpAttr()
        attr.set("transpose_a", self.trans[0] == _T)
        attr.set("transpose_b", self.trans[1] == _T)
        return attr


def buffers(descs: list[TensorDesc], pointers: tuple[int, ...]) -> list[DataBuffer]:
    """Buffers over pointers, each as large as its tensor."""
    return [DataBuffer(pointer, _bytes(desc)) for desc, pointer in zip(descs, pointers, strict=True)]


def _bytes(desc: TensorDesc) -> int:
    if desc.storage_dims is None:
        return desc.bytes()
    count = element_size(desc.data_type)
    for dim in desc.storage_dims:
        count *= dim
    return count


def _matrix(dtype: int, trans: int, rows: int, columns: int) -> TensorDesc:
    dims = [columns, rows] if trans == _T else [rows, columns]
    desc = TensorDesc(dtype, dims, _ND)
    if trans == _NZ:
        desc.storage_format = _FRACTAL_NZ
        desc.storage_dims = list(stored_shape((rows, columns), "ND", "FRACTAL_NZ", cube_width(numpy_name(dtype))))
    return desc


def _invalid(what: str, remedy: str) -> NpuError:
    return NpuError(codes.INVALID_PARAM, what, remedy)
