"""DLPack: npu tensors leave and come back over the same memory; numpy only gets a copy that was asked for."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack


@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64])
def test_capsules_share_memory(device: str, dtype: torch.dtype) -> None:
    x = torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=dtype, device=device).t()
    for back in (from_dlpack(to_dlpack(x)), torch.from_dlpack(x), torch.from_dlpack(x.__dlpack__(max_version=(1, 0)))):
        assert (back.device, back.dtype, back.stride()) == (x.device, dtype, x.stride())
        assert back.data_ptr() == x.data_ptr() and torch.equal(back, x)
    back.zero_()
    assert not x.any()


def test_device_is_an_extension_device() -> None:
    assert torch.ones(2, device="npu:1").__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_memory_lives_as_long_as_the_capsule() -> None:
    capsule = to_dlpack(torch.full((1000,), 7.0, device="npu"))
    others = [torch.zeros(1000, device="npu") for _ in range(8)]
    assert from_dlpack(capsule).unique().tolist() == [7.0] and len(others) == 8
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        from_dlpack(capsule)


def test_from_dlpack_moves_between_devices() -> None:
    x = torch.arange(3.0, device="npu")
    assert torch.from_dlpack(x, device="cpu").tolist() == [0.0, 1.0, 2.0]
    assert torch.from_dlpack(numpy.arange(3.0), device="npu:1").device == torch.device("npu:1")
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="cpu", copy=False)


def test_numpy_refuses_the_device() -> None:
    x = torch.arange(3.0, device="npu")
    for convert in (torch.Tensor.numpy, numpy.asarray):
        with pytest.raises(TypeError, match=r"can't convert npu:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
            convert(x)
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device in DLTensor"):
        numpy.from_dlpack(x)
    assert numpy.from_dlpack(x, device="cpu").tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("stream", [None, -1, 0, 1, 7])
def test_any_stream_will_do_since_work_is_over(stream: int | None) -> None:
    x = torch.arange(3.0, device="npu")
    assert from_dlpack(x.__dlpack__(stream=stream)).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream="first")


def test_other_array_protocols_refuse_the_device() -> None:
    x = torch.arange(3.0, device="npu")
    for name in ("__array_interface__", "__cuda_array_interface__"):
        with pytest.raises(AttributeError):
            getattr(x, name)
    assert x.numpy(force=True).tolist() == [0.0, 1.0, 2.0]


def test_shared_memory_leaves_as_a_capsule_too() -> None:
    x = torch.arange(3.0, device="npu").share_memory_()
    back = from_dlpack(to_dlpack(x))
    del x
    assert back.add_(1).tolist() == [1.0, 2.0, 3.0]


def test_gradients_and_conjugates_are_refused() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, device="npu", requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="conjugate"):
        torch.ones(2, dtype=torch.complex64, device="npu").conj().__dlpack__()


def test_subclasses_answer_for_themselves() -> None:
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return (
                "own"
                if func is torch.Tensor.__dlpack_device__
                else super().__torch_function__(func, types, args, kwargs)
            )

    assert torch.ones(2, device="npu").as_subclass(Own).__dlpack_device__() == "own"
