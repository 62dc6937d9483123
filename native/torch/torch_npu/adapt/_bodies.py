"""What bodies in Python need: npu memory as a tensor of the CPU or as a NumPy array, without a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import wraps
from typing import Any, overload

import torch

Number = int | float | complex | None


@overload
def host_view(tensor: torch.Tensor) -> torch.Tensor: ...
@overload
def host_view(tensor: Number) -> Number: ...
def host_view(tensor: torch.Tensor | Number) -> torch.Tensor | Number:
    """A CPU tensor over the memory of a tensor on npu. It holds the tensor, and writing to it writes to the tensor.

    What a body gets in the place of a tensor passes through: the number of `x + 1` comes to `add.Tensor` as a number, and an
    optional tensor may be None.
    """
    if not isinstance(tensor, torch.Tensor):
        if tensor is not None and not isinstance(tensor, int | float | complex):
            raise TypeError(f"host_view takes a tensor, a number or None, not {type(tensor).__name__}")
        return tensor
    if tensor.device.type != "npu":
        return tensor
    if tensor.numel() == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    storage = tensor.untyped_storage()
    size = storage.nbytes() // tensor.element_size() * tensor.element_size()
    memory = (ctypes.c_char * size).from_address(storage.data_ptr())
    flat = torch.frombuffer(memory, dtype=tensor.dtype)
    view = flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    view._npu_owner = tensor  # type: ignore[attr-defined]
    return view


def _arrays(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return host_view(value.detach()).numpy()
    if isinstance(value, list | tuple):
        return type(value)(_arrays(element) for element in value)
    return value


def _tensors(value: Any, device: torch.device) -> Any:
    import numpy as np

    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.ascontiguousarray(value).reshape(np.shape(value))).to(device)
    if isinstance(value, list | tuple):
        return type(value)(_tensors(element, device) for element in value)
    return value


def _first_device(values: Any) -> torch.device | None:
    for value in values:
        if isinstance(value, torch.Tensor):
            return value.device
        if isinstance(value, list | tuple):
            device = _first_device(value)
            if device is not None:
                return device
    return None


def numpy_body(function: Callable[..., Any]) -> Callable[..., Any]:
    """A body written in NumPy: tensors come as arrays over their memory, arrays that it returns become tensors on the device."""

    @wraps(function)
    def body(*args: Any, **kwargs: Any) -> Any:
        device = _first_device((*args, *kwargs.values())) or torch.device("npu")
        result = function(
            *(_arrays(argument) for argument in args), **{key: _arrays(value) for key, value in kwargs.items()}
        )
        return _tensors(result, device)

    return body
