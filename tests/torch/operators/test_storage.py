"""torch.ops.npu: casts and raw memory."""

from __future__ import annotations

import pytest
import torch
import torch_npu.operators
from torch import nn

torch_npu.operators.register()
ops = torch.ops.npu


def test_dtype_cast_by_code_and_by_dtype_is_differentiable() -> None:
    x = torch.tensor([1.5, -2.25], device="npu", requires_grad=True)
    for code in (5, torch.float16, 256 + 1):
        y = ops.npu_dtype_cast(x, code)
        assert y.dtype == torch.float16 and y.tolist() == [1.5, -2.25]
    (grad,) = torch.autograd.grad(ops._npu_dtype_cast(x, torch.bfloat16).sum(), x)
    assert grad.dtype == torch.float32 and grad.tolist() == [1, 1]
    assert (
        ops.npu_dtype_cast_backward(torch.ones(2, device="npu", dtype=torch.half), torch.float32).dtype == torch.float32
    )
    assert ops._npu_dtype_cast_backward(torch.ones(2, device="npu"), torch.half).dtype == torch.half


def test_dtype_cast_reads_bits_as_the_input_dtype_says() -> None:
    bits = torch.tensor([0x3C00, 0x4000], dtype=torch.int16, device="npu")
    assert ops.npu_dtype_cast(bits, 6, input_dtype=5).tolist() == [1.0, 2.0]
    with pytest.raises(NotImplementedError, match="another size"):
        ops.npu_dtype_cast(bits, 6, input_dtype=6)
    with pytest.raises(NotImplementedError, match="dtype 285 has no dtype in torch"):
        ops.npu_dtype_cast(bits, 285)


def test_dtype_cast_in_place_takes_the_dtype_of_the_other() -> None:
    x = torch.tensor([1.0, 2.0], device="npu")
    assert ops.npu_dtype_cast_(x, torch.ones(1, device="npu", dtype=torch.half)) is not None
    assert x.dtype == torch.float16 and x.tolist() == [1, 2]


def test_change_data_ptr_fuses_parameters_into_one_buffer() -> None:
    first, second = nn.Parameter(torch.zeros(2, device="npu")), nn.Parameter(torch.zeros(2, 2, device="npu"))
    buffer = torch.arange(6.0, device="npu")
    assert ops.npu_change_data_ptr(first, buffer, 0) == 0
    assert ops.npu_change_data_ptr(second, buffer, 2) == 0
    assert first.tolist() == [0, 1] and second.tolist() == [[2, 3], [4, 5]] and second.is_leaf
    (first.square().sum() + second.sum()).backward()
    assert first.grad.tolist() == [0, 2] and second.grad.tolist() == [[1, 1], [1, 1]]
    with torch.no_grad():
        buffer.mul_(10)
    assert second.data_ptr() == buffer.data_ptr() + 8 and second[1].tolist() == [40, 50]
    with pytest.raises(RuntimeError, match=r"4 elements from 3 on do not fit into a storage of 6[\s\S]*ERR01003"):
        ops.npu_change_data_ptr(second, buffer, 3)
    with pytest.raises(RuntimeError, match="dtypes differ"):
        ops.npu_change_data_ptr(second, buffer.half(), 0)


def test_change_data_ptr_counts_from_the_view_it_is_given() -> None:
    buffer = torch.arange(6.0, device="npu")
    x = torch.zeros(2, device="npu")
    ops.npu_change_data_ptr(x, buffer[2:], 1)
    assert x.tolist() == [3, 4]


def test_copy_memory_copies_the_whole_storage() -> None:
    base, source = torch.zeros(6, device="npu"), torch.arange(6.0, device="npu").reshape(2, 3).t()
    assert ops.copy_memory_(base[1:3], source).shape == (2,)
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    for bad, text in (
        (source.half(), "dtypes differ"),
        (source.cpu(), "one npu"),
        (torch.zeros(5, device="npu"), "6 and 5"),
    ):
        with pytest.raises(RuntimeError, match=text):
            ops.copy_memory_(base, bad)


def test_copy_memory_is_seen_by_autograd() -> None:
    x = torch.ones(3, device="npu", requires_grad=True)
    y = x * 2
    z = y.square().sum()
    ops.copy_memory_(y, torch.zeros(3, device="npu"))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_strided_copies() -> None:
    x = torch.arange(12.0, device="npu")
    result = ops.npu_stride_copy(x, [2, 3], [1, 4], 1)
    assert result.tolist() == [[1, 5, 9], [2, 6, 10]] and result.is_contiguous()
    out = torch.empty(0, device="npu")
    ops.npu_stride_copy.out(x, [2, 3], [1, 4], 1, out=out)
    assert torch.equal(out, result)
    target = torch.zeros(3, 2, device="npu").t()
    ops.npu_view_copy(target, result, False)
    assert torch.equal(target, result) and not target.is_contiguous()


def test_swapped_memory_is_a_tensor_of_the_device() -> None:
    x = ops.empty_with_swapped_memory([2, 3], dtype=torch.half, device="npu")
    assert x.device.type == "npu" and x.dtype == torch.half and x.fill_(2).sum() == 12
    with pytest.raises(RuntimeError, match="must be npu, not cpu"):
        ops.empty_with_swapped_memory([2], device="cpu")


def test_format_cast_primitives_pass_the_values_on() -> None:
    x = torch.randn(2, 3, device="npu", requires_grad=True)
    y = ops._npu_format_cast(x, 2)
    assert torch.equal(y, x)
