"""TensorDesc, Tensor, alloc_tensor and FlowInfo."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import dataflow as df
import dataflow.data_type as dt
from softnpu.flow.values import tensor as core
from tests.dataflow.face.support import code_of

NUMBERS = {
    "DT_FLOAT": (0, np.float32), "DT_FLOAT16": (1, np.float16), "DT_INT8": (2, np.int8), "DT_INT32": (3, np.int32),
    "DT_UINT8": (4, np.uint8), "DT_INT16": (6, np.int16), "DT_UINT16": (7, np.uint16), "DT_UINT32": (8, np.uint32),
    "DT_INT64": (9, np.int64), "DT_UINT64": (10, np.uint64), "DT_DOUBLE": (11, np.float64), "DT_BOOL": (12, np.bool_),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_data_types_have_the_numbers_of_the_manual(name: str) -> None:
    number, kind = NUMBERS[name]
    dtype = getattr(df, name)
    assert int(dtype.dtype) == number and repr(dtype) == name
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    tensor = df.Tensor(np.zeros(2, kind))
    assert tensor._tensor_desc == df.TensorDesc(dtype, [2]) and tensor.get_data_type() is kind


def test_a_descriptor_refuses_wrong_types_and_shapes() -> None:
    for dtype in (np.float32, 0, None):
        with pytest.raises(df.DfException) as error:
            df.TensorDesc(dtype, [1])
        assert code_of(error) == 145022
    for shape in (3, "12", [1.0], [np.int64(2)], None):
        with pytest.raises(df.DfException) as error:
            df.TensorDesc(df.DT_FLOAT, shape)
        assert code_of(error) == 145021
    assert df.TensorDesc(df.DT_FLOAT, (True, -1))._shape == [True, -1]


def test_desc_equality_and_text() -> None:
    desc = df.TensorDesc(df.DT_INT8, (2, 3))
    assert desc == df.TensorDesc(df.DT_INT8, [2, 3]) and desc != df.TensorDesc(df.DT_INT8, [3, 2])
    assert desc != df.TensorDesc(df.DT_UINT8, [2, 3]) and desc != "x"
    assert repr(desc) == "TensorDesc(dtype=DT_INT8, shape=[2, 3])"
    with pytest.raises(TypeError):
        hash(desc)


def test_numpy_shares_the_memory_of_the_tensor() -> None:
    array = np.arange(4, dtype=np.int32)
    tensor = df.Tensor(array)
    tensor.numpy()[0] = 9
    assert array[0] == 9
    tensor.numpy(copy=True)[1] = 9
    assert array[1] == 1


def test_a_tensor_of_a_tensor_is_a_copy() -> None:
    first = df.Tensor([1.5, 2.5])
    second = df.Tensor(first)
    second.numpy()[0] = 0
    assert first.numpy()[0] == 1.5
    third = df.Tensor(first, tensor_desc=df.TensorDesc(df.DT_INT32, [2]))
    assert third.numpy().tolist() == [1, 2] and third.get_data_type() is np.int32


def test_a_tensor_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(df.DfException) as error:
        df.Tensor(np.zeros((4, 4))[:, ::2])
    assert code_of(error) == 145000
    with pytest.raises(df.DfException) as error:
        df.Tensor([1, 2], tensor_desc=df.TensorDesc(df.DT_INT32, [3]))
    assert code_of(error) == 145021
    for bad in (np.zeros(2, np.complex64), np.array([object()]), np.zeros(1, "M8[s]")):
        with pytest.raises(df.DfException) as error:
            df.Tensor(bad)
        assert code_of(error) == 145022
    with pytest.raises(ValueError):
        df.Tensor([[1, 2], [3]])
    with pytest.raises(ValueError):
        df.Tensor(["a"], tensor_desc=df.TensorDesc(df.DT_INT32, [1]))
    with pytest.raises(ValueError):
        df.Tensor([object()], tensor_desc=df.TensorDesc(df.DT_INT32, [1]))
    with pytest.raises(TypeError):
        df.Tensor([1]) + df.Tensor([1])


def test_other_byte_order_is_made_native() -> None:
    assert df.Tensor(np.array([1, 256], ">i4")).numpy().dtype == np.int32
    assert df.Tensor(np.array([1, 256], ">i4")).numpy().tolist() == [1, 256]


def test_strings_are_unicode() -> None:
    for text in (["grün", "水"], [b"ab", b"c"]):
        tensor = df.Tensor(text)
        assert tensor._tensor_desc == df.TensorDesc(df.DT_STRING, [2])
        with pytest.raises(df.DfException):
            tensor.numpy()
        assert tensor.numpy(copy=True).tolist() == text


def test_bf16_is_first_class() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensor = df.Tensor([1.0, 2.5], tensor_desc=df.TensorDesc(dt.DT_BF16, [2]))
    assert tensor.numpy().dtype == ml_dtypes.bfloat16 and tensor.numpy().astype(float).tolist() == [1.0, 2.5]
    assert df.Tensor(np.zeros(3, ml_dtypes.bfloat16))._tensor_desc == df.TensorDesc(dt.DT_BF16, [3])
    assert df.alloc_tensor([4], dt.DT_BF16).get_data_size() == 8
    assert not hasattr(df, "DT_BF16")


def test_a_tensor_tells_its_shape_and_size_and_can_be_reshaped() -> None:
    tensor = df.Tensor(np.arange(6, dtype=np.int16))
    assert (tensor.get_shape(), tensor.get_data_size(), tensor.get_element_cnt()) == ([6], 12, 6)
    assert tensor.reshape([2, 3]) == 0 and tensor.get_shape() == [2, 3] and tensor.numpy()[1, 0] == 3
    assert (
        tensor.reshape([4]) == 164000 and tensor.reshape([1] * 32 + [6]) == 164000 and tensor.reshape([-1, 6]) == 164000
    )
    assert tensor.get_shape() == [2, 3]
    again = pickle.loads(pickle.dumps(tensor))
    assert again.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert repr(df.Tensor([1])) == "Tensor(array([1]), tensor_desc=TensorDesc(dtype=DT_INT64, shape=[1]))"


@pytest.mark.parametrize("align", [32, 64, 128, 256, 512, 1024])
def test_alloc_tensor_is_aligned(align: int) -> None:
    tensor = df.alloc_tensor((3, 5), np.float32, align)
    assert tensor.numpy().ctypes.data % align == 0 and tensor.get_shape() == [3, 5]
    tensor.numpy()[:] = 7
    assert tensor.numpy().sum() == 105


def test_alloc_tensor_refuses_wrong_types_and_alignments() -> None:
    for dtype in ("x", 3, np.complex64, None):
        with pytest.raises(TypeError):
            df.alloc_tensor([1], dtype)
    for arguments in (([1], df.DT_FLOAT, 48), ([1], df.DT_STRING), ([-1], df.DT_FLOAT)):
        with pytest.raises(df.DfException):
            df.alloc_tensor(*arguments)


def test_engines_provide_the_memory() -> None:
    asked = []

    def provider(nbytes: int, align: int) -> np.ndarray:
        asked.append((nbytes, align))
        return np.full(nbytes, 1, np.uint8)

    core.add_provider(provider)
    try:
        tensor = df.alloc_tensor([2, 2], df.DT_INT16, 128)
    finally:
        core.remove_provider(provider)
    assert asked == [(8, 128)] and tensor.numpy().tolist() == [[257, 257], [257, 257]]
    assert df.alloc_tensor([2], df.DT_INT16).get_data_size() == 4 and len(asked) == 1


def test_flow_info_holds_64_bytes_of_user_data() -> None:
    info = df.FlowInfo(1, 2, df.FlowFlag.DATA_FLOW_FLAG_EOS, 4)
    assert repr(info) == "FlowInfo(start_time=1, end_time=2, flow_flags=1, transaction_id=4)"
    info.set_user_data(b"abcd", 2)
    info.set_user_data(b"z", 60)
    assert info.data_size == 61 and info.get_user_data(4, 2) == b"abcd" and len(info.user_data) == 64
    info.set_user_data(b"x" * 64)
    for data, offset in ((b"", 0), (b"a", 64), (b"ab", 63), (b"a" * 65, 0), (b"a", -1)):
        with pytest.raises(df.DfException):
            info.set_user_data(data, offset)
    for size, offset in ((0, 0), (65, 0), (1, 64), (2, 63)):
        with pytest.raises(df.DfException):
            info.get_user_data(size, offset)
    assert df.FlowInfo.MAX_USER_DATA_SIZE == 64
    with pytest.raises(AttributeError):
        info.user_data = b""


def test_exceptions_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(df.DfException("no good", 7)))
    assert (error.message, error.error_code, str(error)) == ("no good", 7, "DfException:7:no good")
    assert isinstance(pickle.loads(pickle.dumps(df.DfAbortException("x"))), df.DfAbortException)
    assert df.DfException("x").error_code == 145000 and df.DfException("x").args == ()
