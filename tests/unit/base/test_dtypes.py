"""Numbers of data types against the tables of ONNX and NumPy."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype

from softnpu import constants
from softnpu.base.dtypes import (
    UNDEFINED,
    DType,
    TensorFormat,
    element_size,
    from_numpy,
    from_onnx,
    numpy_name,
    to_onnx,
)

TYPES = {name: number for name, number in onnx.TensorProto.DataType.items() if name != "UNDEFINED"}
PLAIN = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_type_of_onnx_comes_back(name: str) -> None:
    number = TYPES[name]
    assert from_onnx(number) != UNDEFINED
    assert to_onnx(from_onnx(number)) == number


@pytest.mark.parametrize("name", PLAIN)
def test_a_type_of_numpy_has_the_number_and_size_of_onnx_and_numpy(name: str) -> None:
    data_type = from_numpy(name)
    assert numpy_name(data_type) == name
    assert element_size(data_type) == np.dtype(name).itemsize
    assert to_onnx(data_type) == np_dtype_to_tensor_dtype(np.dtype(name))


@pytest.mark.parametrize("name", [name for name in TYPES if name != "STRING"])
def test_numpy_reads_a_type_as_onnx_does(name: str) -> None:
    known = numpy_name(from_onnx(TYPES[name]))
    assert known in ("", tensor_dtype_to_np_dtype(TYPES[name]).name)


def test_what_is_unknown() -> None:
    assert from_numpy("nothing") == UNDEFINED
    assert from_onnx(0) == UNDEFINED
    assert (numpy_name(999), to_onnx(999)) == ("", 0)


# The values that the API reference prints under aclDataType and aclFormat.
ACL_DATA_TYPES = {
    "ACL_DT_UNDEFINED": -1, "ACL_FLOAT": 0, "ACL_FLOAT16": 1, "ACL_INT8": 2, "ACL_INT32": 3, "ACL_UINT8": 4, "ACL_INT16": 6,
    "ACL_UINT16": 7, "ACL_UINT32": 8, "ACL_INT64": 9, "ACL_UINT64": 10, "ACL_DOUBLE": 11, "ACL_BOOL": 12, "ACL_STRING": 13,
    "ACL_COMPLEX64": 16, "ACL_COMPLEX128": 17, "ACL_BF16": 27, "ACL_INT4": 29, "ACL_UINT1": 30, "ACL_COMPLEX32": 33,
    "ACL_HIFLOAT8": 34, "ACL_FLOAT8_E5M2": 35, "ACL_FLOAT8_E4M3FN": 36, "ACL_FLOAT8_E8M0": 37, "ACL_FLOAT6_E3M2": 38,
    "ACL_FLOAT6_E2M3": 39, "ACL_FLOAT4_E2M1": 40, "ACL_FLOAT4_E1M2": 41,
}  # fmt: skip
ACL_FORMATS = {
    "ACL_FORMAT_UNDEFINED": -1, "ACL_FORMAT_NCHW": 0, "ACL_FORMAT_NHWC": 1, "ACL_FORMAT_ND": 2, "ACL_FORMAT_NC1HWC0": 3,
    "ACL_FORMAT_FRACTAL_Z": 4, "ACL_FORMAT_NC1HWC0_C04": 12, "ACL_FORMAT_HWCN": 16, "ACL_FORMAT_NDHWC": 27,
    "ACL_FORMAT_FRACTAL_NZ": 29, "ACL_FORMAT_NCDHW": 30, "ACL_FORMAT_NDC1HWC0": 32, "ACL_FORMAT_NC": 35, "ACL_FORMAT_NCL": 47,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DType)
def test_a_data_type_has_the_number_of_the_manual(dtype: DType) -> None:
    name = "ACL_DT_UNDEFINED" if dtype is DType.UNDEFINED else f"ACL_{dtype.name}"
    assert getattr(constants, name) == dtype == ACL_DATA_TYPES[name]


def test_every_data_type_of_the_manual_has_a_member() -> None:
    assert {int(dtype) for dtype in DType} == set(ACL_DATA_TYPES.values())


def test_every_format_of_the_manual_has_a_constant() -> None:
    assert {name: getattr(constants, name) for name in ACL_FORMATS} == ACL_FORMATS


@pytest.mark.parametrize("format", TensorFormat)
def test_a_format_has_the_number_of_the_manual(format: TensorFormat) -> None:
    name = f"ACL_FORMAT_{format.name}"
    assert getattr(constants, name) == format == ACL_FORMATS[name]


def test_a_member_is_its_number_in_messages_files_and_tables() -> None:
    assert f"{DType.BF16} {DType.BF16!r} {[DType.BF16]} {json.dumps(DType.BF16)}" == "27 27 [27] 27"
    assert {27: "x"}[DType.BF16] == "x" and {DType.BF16: "x"}[27] == "x"
