"""Data types and formats of ACL: their numbers, and element sizes and NumPy names from the rows."""

from __future__ import annotations

from enum import IntEnum

from softnpu.spec._generated.dtypes import DTYPES


class DType(IntEnum):
    """aclDataType. A member is its number everywhere, in messages and files, too."""

    UNDEFINED = -1
    FLOAT = 0
    FLOAT16 = 1
    INT8 = 2
    INT32 = 3
    UINT8 = 4
    INT16 = 6
    UINT16 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    BOOL = 12
    STRING = 13
    COMPLEX64 = 16
    COMPLEX128 = 17
    BF16 = 27
    INT4 = 29
    UINT1 = 30
    COMPLEX32 = 33
    HIFLOAT8 = 34
    FLOAT8_E5M2 = 35
    FLOAT8_E4M3FN = 36
    FLOAT8_E8M0 = 37
    FLOAT6_E3M2 = 38
    FLOAT6_E2M3 = 39
    FLOAT4_E2M1 = 40
    FLOAT4_E1M2 = 41

    __repr__ = int.__repr__


class TensorFormat(IntEnum):
    """aclFormat, as far as anything here depends on it."""

    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30

    __repr__ = int.__repr__


FORMAT_NAMES = {int(format): format.name for format in TensorFormat}
_UNLISTED_BYTES = 8  # what the published binding answers for a value it does not know


_SIZES = {number: size for number, (_, size, _) in DTYPES.items() if size is not None}
_NUMPY_NAMES = {number: numpy_type for number, (_, _, numpy_type) in DTYPES.items()}


def element_size(data_type: int) -> int:
    """Bytes per element of an aclDataType."""
    return _SIZES.get(data_type, _UNLISTED_BYTES)


def numpy_name(data_type: int) -> str:
    """The NumPy type of an aclDataType, or "" where NumPy has none."""
    return _NUMPY_NAMES.get(data_type, "")


# Numbers of the same type elsewhere: aclDataType → ONNX's TensorProto.DataType, and → DataType of ge.proto (in `.om` files).
_TO_ONNX: dict[int, int] = {
    DType.FLOAT: 1, DType.FLOAT16: 10, DType.INT8: 3, DType.INT32: 6, DType.UINT8: 2, DType.INT16: 5, DType.UINT16: 4,
    DType.UINT32: 12, DType.INT64: 7, DType.UINT64: 13, DType.DOUBLE: 11, DType.BOOL: 9, DType.STRING: 8,
    DType.COMPLEX64: 14, DType.COMPLEX128: 15, DType.BF16: 16, DType.INT4: 22, DType.FLOAT8_E5M2: 19,
    DType.FLOAT8_E4M3FN: 17, DType.FLOAT8_E8M0: 24,
}  # fmt: skip
_FROM_ONNX = {onnx: int(acl) for acl, onnx in _TO_ONNX.items()}
_TO_GE: dict[int, int] = {
    DType.FLOAT: 1, DType.FLOAT16: 2, DType.INT8: 3, DType.INT32: 7, DType.UINT8: 4, DType.INT16: 5, DType.UINT16: 6,
    DType.UINT32: 9, DType.INT64: 8, DType.UINT64: 10, DType.DOUBLE: 12, DType.BOOL: 11, DType.STRING: 13,
    DType.COMPLEX64: 16, DType.COMPLEX128: 17, DType.BF16: 27, DType.INT4: 28, DType.UINT1: 29, DType.COMPLEX32: 32,
    DType.HIFLOAT8: 33, DType.FLOAT8_E5M2: 34, DType.FLOAT8_E4M3FN: 35, DType.FLOAT8_E8M0: 36,
}  # fmt: skip
_FROM_GE = {ge: int(acl) for acl, ge in _TO_GE.items()}
_FOREIGN = 1000  # types that only ONNX has travel under their ONNX number above this
UNDEFINED = int(DType.UNDEFINED)


def to_onnx(data_type: int) -> int:
    """ONNX's number of a type; 0 (undefined) where it has none."""
    return data_type - _FOREIGN if data_type >= _FOREIGN else _TO_ONNX.get(data_type, 0)


def from_onnx(number: int) -> int:
    """The aclDataType of an ONNX type; what ACL does not know gets a number above 1000."""
    return UNDEFINED if number <= 0 else _FROM_ONNX.get(number, _FOREIGN + number)


def to_ge(data_type: int) -> int:
    """The number of a type in the messages of an `.om` file; 0 (undefined) where it has none."""
    return _TO_GE.get(data_type, 0)


def from_ge(number: int) -> int:
    """The aclDataType of a number found in an `.om` file."""
    return _FROM_GE.get(number, UNDEFINED)


_FROM_NUMPY = {name: data_type for data_type, name in _NUMPY_NAMES.items() if name}


def from_numpy(name: str) -> int:
    """The aclDataType of a NumPy type's name, -1 where there is none."""
    return _FROM_NUMPY.get(name, UNDEFINED)
