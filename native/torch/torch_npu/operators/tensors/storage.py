"""Raw memory and casts. The operators of storage formats themselves are in C++ (format_ops.cpp)."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, dtype_of, into, require, unsupported


def _elements(x: Tensor) -> Tensor:
    """All that the storage of a tensor holds, as a flat tensor that shares it and its version."""
    return x.detach().as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)


def copy_memory_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    require(self.dtype == src.dtype, f"copy_memory_: dtypes differ: {self.dtype} and {src.dtype}", ErrCode.TYPE)
    require(
        self.device == src.device and self.device.type == "npu",
        f"copy_memory_: both tensors must be on one npu, not on {self.device} and {src.device}",
    )
    target, source = _elements(self), _elements(src)
    require(
        target.numel() == source.numel(),
        f"copy_memory_: the storages hold {target.numel()} and {source.numel()} elements; they must be of one size",
    )
    target.copy_(source, non_blocking)
    return self


def empty_with_swapped_memory(
    size: list[int], *, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> Tensor:
    """Memory of the device is host memory here, so every tensor is of this kind."""
    where = torch.device("npu") if device is None else torch.device(device)
    require(where.type == "npu", f"empty_with_swapped_memory: the device must be npu, not {where}")
    return torch.empty(size, dtype=dtype, device=where)


def npu_change_data_ptr(dst: Tensor, src: Tensor, index: int) -> int:
    """dst keeps its shape, its place in the graph and its name; only its memory is src's from now on."""
    require(dst.dtype == src.dtype, f"npu_change_data_ptr: dtypes differ: {dst.dtype} and {src.dtype}", ErrCode.TYPE)
    require(index >= 0, f"npu_change_data_ptr: index must not be negative, {index} is", ErrCode.VALUE)
    span = 1 + sum((size - 1) * step for size, step in zip(dst.shape, dst.stride(), strict=True)) if dst.numel() else 0
    offset = src.storage_offset() + index
    room = src.untyped_storage().nbytes() // src.element_size()
    require(
        offset + span <= room,
        f"npu_change_data_ptr: {span} elements from {offset} on do not fit into a storage of {room}",
        ErrCode.VALUE,
    )
    with torch.no_grad():
        dst.set_(src.untyped_storage(), offset, dst.size(), dst.stride())
    return 0


def _reinterpret(x: Tensor, code: int | None, name: str) -> Tensor:
    """The same bits under the dtype that a code names; None is the tensor's own."""
    if code is None or dtype_of(code, name) == x.dtype:
        return x
    meant = dtype_of(code, name)
    if meant.itemsize != x.dtype.itemsize:
        raise unsupported(f"{name} {code} ({meant}) for data of {x.dtype}: elements of another size")
    return x.view(meant)


def npu_dtype_cast(self: Tensor, dtype: int, input_dtype: int | None = None) -> Tensor:
    return _reinterpret(self, input_dtype, "npu_dtype_cast: input_dtype").to(dtype_of(dtype, "npu_dtype_cast: dtype"))


def _npu_dtype_cast(self: Tensor, dtype: torch.dtype) -> Tensor:
    return self.to(dtype_of(dtype))


def npu_dtype_cast_(self: Tensor, src: Tensor) -> Tensor:
    self.data = self.detach().to(src.dtype)
    return self


def npu_dtype_cast_backward(
    grad: Tensor, dtype: torch.dtype, grad_dtype: int | None = None, input_dtype: int | None = None
) -> Tensor:
    """`input_dtype` names what the forward input's bits meant, which is where the gradient goes back to when it is given."""
    meant = _reinterpret(grad, grad_dtype, "npu_dtype_cast_backward: grad_dtype")
    return meant.to(dtype_of(dtype if input_dtype is None else input_dtype, "npu_dtype_cast_backward: input_dtype"))


def _npu_dtype_cast_backward(grad: Tensor, dtype: torch.dtype) -> Tensor:
    return grad.to(dtype_of(dtype))


def _npu_format_cast__aclnn(self: Tensor, acl_format: int, customize_dtype: int) -> Tensor:
    result: Tensor = torch.ops.npu.npu_format_cast(self, acl_format, customize_dtype=customize_dtype)
    return result


def _npu_format_cast__input_dtype(self: Tensor, acl_format: int, customize_dtype: int, input_dtype: int) -> Tensor:
    result: Tensor = torch.ops.npu.npu_format_cast(
        self, acl_format, customize_dtype=customize_dtype, input_dtype=input_dtype
    )
    return result


def npu_stride_copy(self: Tensor, shape: list[int], stride: list[int], storage_offset: float) -> Tensor:
    """The offset counts from the start of the storage, as as_strided's does."""
    return self.as_strided(shape, stride, int(storage_offset)).clone(memory_format=torch.contiguous_format)


def npu_stride_copy__out(
    self: Tensor, shape: list[int], stride: list[int], storage_offset: float, *, out: Tensor
) -> Tensor:
    return into(out, self.as_strided(shape, stride, int(storage_offset)))


def npu_view_copy(self: Tensor, other: Tensor, non_blocking: bool) -> Tensor:
    return self.copy_(other, non_blocking)
