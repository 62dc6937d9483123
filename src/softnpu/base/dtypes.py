"""Data types of ACL: element sizes and NumPy names, from the rows."""

from __future__ import annotations

from softnpu.spec._generated.dtypes import DTYPES

FORMAT_NAMES = {
    0: "NCHW", 1: "NHWC", 2: "ND", 3: "NC1HWC0", 4: "FRACTAL_Z", 16: "HWCN", 27: "NDHWC", 29: "FRACTAL_NZ", 30: "NCDHW",
}  # aclFormat  # fmt: skip
_UNLISTED_BYTES = 8  # what the published binding answers for a value it does not know


def element_size(data_type: int) -> int:
    """Bytes per element of an aclDataType."""
    row = DTYPES.get(data_type)
    return _UNLISTED_BYTES if row is None or row[1] is None else row[1]


def numpy_name(data_type: int) -> str:
    """The NumPy type of an aclDataType, or "" where NumPy has none."""
    row = DTYPES.get(data_type)
    return row[2] if row is not None else ""


# Numbers of the same type elsewhere: aclDataType → ONNX's TensorProto.DataType, and → DataType of ge.proto (in `.om` files).
_TO_ONNX = {
    0: 1, 1: 10, 2: 3, 3: 6, 4: 2, 6: 5, 7: 4, 8: 12, 9: 7, 10: 13, 11: 11, 12: 9, 13: 8, 16: 14, 17: 15, 27: 16, 29: 22,
    35: 19, 36: 17, 37: 24,
}  # fmt: skip
_FROM_ONNX = {onnx: acl for acl, onnx in _TO_ONNX.items()}
_TO_GE = {
    0: 1, 1: 2, 2: 3, 3: 7, 4: 4, 6: 5, 7: 6, 8: 9, 9: 8, 10: 10, 11: 12, 12: 11, 13: 13, 16: 16, 17: 17, 27: 27, 29: 28,
    30: 29, 33: 32, 34: 33, 35: 34, 36: 35, 37: 36,
}  # fmt: skip
_FROM_GE = {ge: acl for acl, ge in _TO_GE.items()}
_FOREIGN = 1000  # types that only ONNX has travel under their ONNX number above this
UNDEFINED = -1


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


_FROM_NUMPY = {row[2]: data_type for data_type, row in DTYPES.items() if row[2]}


def from_numpy(name: str) -> int:
    """The aclDataType of a NumPy type's name, -1 where there is none."""
    return _FROM_NUMPY.get(name, UNDEFINED)
