"""Element types of DataFlow tensors and what they are in NumPy."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from softnpu.flow import codes
from softnpu.flow.errors import DfException


class DataType(enum.IntEnum):
    """Numbers of the element types."""

    DT_FLOAT = 0
    DT_FLOAT16 = 1
    DT_INT8 = 2
    DT_INT32 = 3
    DT_UINT8 = 4
    DT_INT16 = 6
    DT_UINT16 = 7
    DT_UINT32 = 8
    DT_INT64 = 9
    DT_UINT64 = 10
    DT_DOUBLE = 11
    DT_BOOL = 12
    DT_STRING = 13
    DT_QINT8 = 18
    DT_QINT16 = 19
    DT_QINT32 = 20
    DT_QUINT8 = 21
    DT_QUINT16 = 22
    DT_DUAL = 25
    DT_BF16 = 27
    DT_INT4 = 29
    DT_UINT1 = 30
    DT_INT2 = 31
    DT_UINT2 = 32


class DType:
    """One element type; there is one object of each, so they are compared by identity, also after pickling."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype

    def __repr__(self) -> str:
        return self.dtype.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_name, (self.dtype.name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DType:
        return self


DT_FLOAT = DType(DataType.DT_FLOAT)
DT_FLOAT16 = DType(DataType.DT_FLOAT16)
DT_INT8 = DType(DataType.DT_INT8)
DT_INT16 = DType(DataType.DT_INT16)
DT_INT32 = DType(DataType.DT_INT32)
DT_INT64 = DType(DataType.DT_INT64)
DT_UINT8 = DType(DataType.DT_UINT8)
DT_UINT16 = DType(DataType.DT_UINT16)
DT_UINT32 = DType(DataType.DT_UINT32)
DT_UINT64 = DType(DataType.DT_UINT64)
DT_DOUBLE = DType(DataType.DT_DOUBLE)
DT_BOOL = DType(DataType.DT_BOOL)
DT_STRING = DType(DataType.DT_STRING)
DT_BF16 = DType(DataType.DT_BF16)

ALL = (
    DT_FLOAT, DT_FLOAT16, DT_INT8, DT_INT32, DT_UINT8, DT_INT16, DT_UINT16, DT_UINT32, DT_INT64, DT_UINT64, DT_DOUBLE,
    DT_BOOL, DT_STRING, DT_BF16,
)  # fmt: skip

# The two names under which programs patch these maps.
_dflow_dtype_to_np_dtype: dict[DType, Any] = {
    DT_FLOAT: np.float32,
    DT_FLOAT16: np.float16,
    DT_INT8: np.int8,
    DT_INT16: np.int16,
    DT_INT32: np.int32,
    DT_INT64: np.int64,
    DT_UINT8: np.uint8,
    DT_UINT16: np.uint16,
    DT_UINT32: np.uint32,
    DT_UINT64: np.uint64,
    DT_DOUBLE: np.float64,
    DT_BOOL: np.bool_,
    DT_STRING: np.str_,
}
_np_dtype_to_dflow_dtype: dict[Any, DType] = {value: key for key, value in _dflow_dtype_to_np_dtype.items()}
_np_dtype_to_dflow_dtype[np.bytes_] = DT_STRING

_NAMES = {str(each): each for each in ALL}


def _of_name(name: str) -> DType:
    return _NAMES[name]


def numpy_type(dtype: DType) -> Any:
    """The NumPy type of an element type; bfloat16 is that of ml_dtypes, where it is installed."""
    known = _dflow_dtype_to_np_dtype.get(dtype)
    if known is None and dtype is DT_BF16:
        try:
            from ml_dtypes import bfloat16
        except ImportError as problem:
            raise DfException(
                "DT_BF16 tensors need the package ml_dtypes: pip install ml_dtypes.", codes.DATATYPE_INVALID
            ) from problem
        known = bfloat16
    if known is None:
        raise DfException(f"{dtype} has no NumPy type, so no tensor can have it.", codes.DATATYPE_INVALID)
    return known


def find(kind: Any) -> DType | None:
    """The element type of a NumPy type or dtype; None where there is none."""
    try:
        dtype = np.dtype(kind)
    except TypeError:
        return None
    known = _np_dtype_to_dflow_dtype.get(dtype.type)
    if known is None and dtype.kind in "iuf":  # the second C integer of the same width (`longlong` beside `int64`)
        known = _np_dtype_to_dflow_dtype.get(np.dtype(f"{dtype.kind}{dtype.itemsize}").type)
    if known is None and dtype.name == "bfloat16":
        return DT_BF16
    return known
