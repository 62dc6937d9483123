"""The HDF5 files of `torch.utils.dumper`: /<operator>/<number>/input/<argument>, /output/<argument>, and what stands beside the values.

h5py is no dependency of this package: it is imported when a file is needed. Where the manuals are silent the numbers are ours: Type
is 0 for a tensor, 1 for a number, 2 for a list of numbers; DeviceType is 10 for npu, as in the builds that had this tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch

from torch_npu._errors import ErrCode, pta_error

_DTYPES = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
}
_OTHER_DTYPE = 0
_DEVICES = {"cpu": 0, "cuda": 1, "npu": 10}
_TENSOR, _SCALAR, _VECTOR = range(3)
_HALF = (torch.float16, torch.bfloat16)


def library() -> ModuleType:
    """The package, or the error that names it."""
    try:
        import h5py
    except ImportError as error:
        raise RuntimeError(
            "torch.utils.dumper writes HDF5 files with the package h5py, which is not installed: pip install h5py"
            + pta_error(ErrCode.NOT_FOUND)
        ) from error
    module: ModuleType = h5py
    return module


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A list of tensors is a group: its members are name/name_0, name/name_1 …"""
    if isinstance(value, list | tuple) and any(isinstance(element, torch.Tensor) for element in value):
        for index, element in enumerate(value):
            yield f"{name}/{name}_{index}", element
    else:
        yield name, value


def _numbers(value: Any) -> bool:
    return isinstance(value, int | float) or (
        isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(number, int | float) for number in value)
    )


def write(file: Any, group: str, values: dict[str, Any]) -> None:
    """Arguments or results of a call below `place`; what has no numbers (None, a dtype, a device) is left out."""
    for name, value in values.items():
        for path, leaf in _leaves(name, value):
            if isinstance(leaf, torch.Tensor):
                _write_tensor(file, f"{group}/{path}", leaf)
            elif _numbers(leaf):
                dataset = file.create_dataset(f"{group}/{path}", data=np.asarray(leaf))
                dataset.attrs["Type"] = _VECTOR if isinstance(leaf, list | tuple) else _SCALAR


def _write_tensor(file: Any, path: str, tensor: torch.Tensor) -> None:
    host = tensor.detach().cpu().resolve_conj().resolve_neg()
    if host.dtype in _HALF:
        host = host.float()
    on_npu = tensor.device.type == "npu"
    dataset = file.create_dataset(path, data=host.contiguous().numpy())
    dataset.attrs["DeviceType"] = _DEVICES.get(tensor.device.type, -1)
    dataset.attrs["DataType"] = _DTYPES.get(tensor.dtype, _OTHER_DTYPE)
    dataset.attrs["FormatType"] = torch.ops.npu.get_npu_format(tensor) if on_npu else 0
    dataset.attrs["Type"] = _TENSOR
    dataset.attrs["Stride"] = list(tensor.stride())


def read(file: Any, path: str, like: torch.Tensor) -> torch.Tensor | None:
    """The values of a tensor as one that fits `like`; None where the file has none."""
    if path not in file:
        return None
    values = torch.as_tensor(np.asarray(file[path][()]))
    if values.shape != like.shape:
        raise RuntimeError(
            f"{path} has sizes {tuple(values.shape)}, the program's tensor has {tuple(like.shape)}: "
            "the file is of another program" + pta_error(ErrCode.VALUE)
        )
    return values.to(device=like.device, dtype=like.dtype)


def loaded(file: Any, group: str, name: str, value: Any) -> Any:
    """An argument with the values that a file has for it."""
    if isinstance(value, torch.Tensor):
        values = read(file, f"{group}/{name}", value)
        return value if values is None else values
    if isinstance(value, list | tuple):
        changed = [
            loaded(file, f"{group}/{name}", f"{name}_{index}", element)
            if isinstance(element, torch.Tensor)
            else element
            for index, element in enumerate(value)
        ]
        return type(value)(changed)
    return value
