"""Storage formats: which layout a chip would keep a tensor in, how much padding that costs, and when it converts.

Values always stay in logical order (`csrc/formats/`), so a conversion here is a copy; what the tuning chapters are about, how
often a program converts, is counted and published on the trace bus as a task TransData.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

import torch

from softnpu.base.trace import Span, bus
from torch_npu import _C
from torch_npu._runtime.face import torch_with_npu


class Format(IntEnum):
    """The codes of storage formats."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    def __str__(self) -> str:
        return self.name


class Description(NamedTuple):
    """What a storage carries: its format, the plain format of that, the tensor it was made for, the sizes with padding."""

    format: Format
    base: Format
    base_sizes: tuple[int, ...]
    storage_sizes: tuple[int, ...]


_PLAIN = (Format.ND, Format.NCHW, Format.NHWC, Format.NCDHW, Format.NDHWC)
_counts: Counter[tuple[Format, Format]] = Counter()
_lock = threading.Lock()


def conversions() -> dict[tuple[Format, Format], int]:
    """How often storages were converted since the last reset, by (from, to)."""
    with _lock:
        return dict(_counts)


def reset_conversions() -> None:
    """Count from zero again."""
    with _lock:
        _counts.clear()


def _converted(
    device: int, stream: int, start: int, end: int, before: int, after: int, sizes: list[int], dtype: str
) -> None:
    """Called by the C++ side for every conversion; one that an operator implies takes no time here."""
    pair = Format(before), Format(after)
    with _lock:
        _counts[pair] += 1
    if bus.listeners:
        detail: dict[str, object] = {
            "type": "TransData",
            "from": str(pair[0]),
            "to": str(pair[1]),
            "sizes": tuple(sizes),
            "dtype": dtype,
        }
        bus.publish(Span("task", "TransData", start, end, device, stream, threading.get_native_id(), detail))


def _internal_allowed() -> bool:
    """One switch for all: the option of `torch.npu`, whose default the chip gives."""
    return bool(torch_with_npu.npu.config.allow_internal_format)


def describe(tensor: torch.Tensor) -> Description:
    """All that is known of the format of a tensor on npu."""
    code, base, base_sizes, storage_sizes = _C._formats_describe(tensor)
    return Description(Format(code), Format(base), tuple(base_sizes), tuple(storage_sizes))


def get_npu_format(self: torch.Tensor) -> Format:
    """The format of the storage of a tensor on npu."""
    return Format(torch.ops.npu.get_npu_format(self))


def _linear(module: torch.nn.Linear) -> Iterator[tuple[torch.Tensor | None, Format]]:
    if not torch_with_npu.npu.get_mm_bmm_format_nd():
        yield module.weight, Format.FRACTAL_NZ


def _attention(module: torch.nn.MultiheadAttention) -> Iterator[tuple[torch.Tensor | None, Format]]:
    if not torch_with_npu.npu.get_mm_bmm_format_nd():
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            yield getattr(module, name), Format.FRACTAL_NZ


def _batch_norm(module: torch.nn.BatchNorm2d) -> Iterator[tuple[torch.Tensor | None, Format]]:
    if not torch_with_npu.npu.is_jit_compile_false():
        for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
            yield tensor, Format.NC1HWC0


def _conv2d(module: torch.nn.Conv2d) -> Iterator[tuple[torch.Tensor | None, Format]]:
    if not torch_with_npu.npu.is_jit_compile_false() and module.groups == 1:
        yield module.weight, Format.FRACTAL_Z


def _conv3d(module: torch.nn.Conv3d) -> Iterator[tuple[torch.Tensor | None, Format]]:
    if not torch_with_npu.npu.is_jit_compile_false():
        yield module.weight, Format.FRACTAL_Z_3D


_WEIGHTS: dict[type[torch.nn.Module], Callable[[Any], Iterator[tuple[torch.Tensor | None, Format]]]] = {
    torch.nn.Linear: _linear,
    torch.nn.MultiheadAttention: _attention,
    torch.nn.BatchNorm1d: _batch_norm,
    torch.nn.BatchNorm2d: _batch_norm,
    torch.nn.Conv2d: _conv2d,
    torch.nn.Conv3d: _conv3d,
}


def cast_weight(self: torch.nn.Module, device: int | str | torch.device | None) -> None:
    """Move the weights that the chip's matrix unit reads to `device` in its layout; nothing happens without internal formats."""
    target = (
        torch.device("npu", device) if isinstance(device, int) else torch.device("npu" if device is None else device)
    )
    if target.type != "npu" or not _internal_allowed():
        return
    for module in self.modules():
        for kind, weights in _WEIGHTS.items():
            if not isinstance(module, kind):
                continue
            for tensor, wanted in weights(module):
                if tensor is not None and not torch.nn.parameter.is_lazy(tensor):
                    tensor.data = torch.ops.npu.npu_format_cast(tensor.data.to(target), wanted)


def _cast_first(original: Callable[..., Any], device_of: Callable[..., Any]) -> Callable[..., Any]:
    """A method that moves a module, preceded by `cast_weight`."""

    @wraps(original)
    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        device = device_of(*args, **kwargs)
        if device is not False:
            self.cast_weight(device)
        return original(self, *args, **kwargs)

    return move


def _device_of_npu(device: Any = None, *_: Any, **__: Any) -> Any:
    return device


def _device_of_to(*args: Any, **kwargs: Any) -> Any:
    """The npu device that a call of `Module.to` names, False for any other call."""
    device = torch._C._nn._parse_to(*args, **kwargs)[0]
    return device if device is not None and device.type == "npu" else False


def _plain_first(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Tensor.__reduce_ex__` that pickles a padded tensor in its plain format, so that files hold logical values only."""

    @wraps(original)
    def reduce(self: torch.Tensor, protocol: Any) -> Any:
        if self.device.type == "npu" and type(self) is torch.Tensor and self.layout == torch.strided:
            code, base, *_ = _C._formats_describe(self)
            if code not in _PLAIN:
                plain = torch.ops.npu.npu_format_cast(self.detach(), base).requires_grad_(self.requires_grad)
                return original(plain, protocol)
        return original(self, protocol)

    return reduce


def install(package: ModuleType) -> None:
    """Connect both sides. After the operators have their names, since `get_npu_format` tells more than the operator does."""
    _C._formats_connect(_converted, _internal_allowed)
    for name, value in {"Format": Format, "get_npu_format": get_npu_format}.items():
        setattr(package, name, value)
        if name not in package.__all__:
            package.__all__.append(name)
    tensor: Any = torch.Tensor
    tensor.__reduce_ex__ = _plain_first(tensor.__reduce_ex__)
    module: Any = torch.nn.Module
    module.cast_weight = cast_weight
    module.npu = _cast_first(module.npu, _device_of_npu)
    module.to = _cast_first(module.to, _device_of_to)
