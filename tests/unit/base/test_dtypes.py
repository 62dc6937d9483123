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


@pytest.mark.parametrize("dtype", DType)
def test_a_member_has_the_number_of_the_constant_of_its_name(dtype: DType) -> None:
    name = "ACL_DT_UNDEFINED" if dtype is DType.UNDEFINED else f"ACL_{dtype.name}"
    assert getattr(constants, name) == dtype


@pytest.mark.parametrize("format", TensorFormat)
def test_a_format_has_the_number_of_the_constant_of_its_name(format: TensorFormat) -> None:
    assert getattr(constants, f"ACL_FORMAT_{format.name}") == format


def test_a_member_is_its_number_in_messages_files_and_tables() -> None:
    assert f"{DType.BF16} {DType.BF16!r} {[DType.BF16]} {json.dumps(DType.BF16)}" == "27 27 [27] 27"
    assert {27: "x"}[DType.BF16] == "x" and {DType.BF16: "x"}[27] == "x"
