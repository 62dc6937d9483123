"""`torch.cuda` in place: the names it shares with `torch.npu` become npu's, so every way of importing them finds npu."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import isclass, isfunction
from types import ModuleType
from typing import Any

import torch

from torch_npu import npu
from torch_npu.contrib._transfer_values import asked_by_torch, npu_of, translated
from torch_npu.npu import amp

_SHARED = ("memory", "random", "streams", "graphs")  # modules below torch.cuda whose names are shared too
_OTHER_NAMES = {
    "CUDAGraph": "NPUGraph",
    "CUDAPluggableAllocator": "NPUPluggableAllocator",
    "DoubleTensor": "FloatTensor",
}
_WITH_DEVICE = ("Stream", "ExternalStream")  # classes whose first or second argument is a device


def _asked_here(genuine: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A question about devices: npu's answer for programs, the truth for torch's own code."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        return genuine(*args, **kwargs) if asked_by_torch() else ours(*args, **kwargs)

    answer.__name__ = answer.__qualname__ = genuine.__name__
    answer.__doc__ = ours.__doc__
    return answer


def _shared(target: ModuleType, source: ModuleType) -> list[str]:
    """The functions and classes that both have and torch_npu has made."""

    def ours(value: Any) -> bool:
        return callable(value) and str(getattr(value, "__module__", "")).startswith(("torch_npu", "torch.npu"))

    names = sorted(set(vars(target)) & set(vars(source)))
    return [name for name in names if not name.startswith("__") and ours(vars(source)[name])]


def _point(target: ModuleType, source: ModuleType) -> list[str]:
    """Give a module below torch.cuda the names of its counterpart."""
    names = _shared(target, source)
    for name in names:
        value = vars(source)[name]
        setattr(target, name, translated(value) if isfunction(value) else value)
    return names


def _translate_constructors() -> None:
    """Streams and device contexts are npu's own classes: they learn to read cuda devices where they are made."""
    for name in _WITH_DEVICE:
        kind: Any = getattr(npu, name)
        kind.__new__ = staticmethod(translated(kind.__new__))
    device: Any = npu.device
    original = device.__init__
    device.__init__ = lambda self, device: original(self, npu_of(device))


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Marks of NVIDIA's tools: there is nobody to read them."""


def _quiet_tools() -> None:
    """nvtx ranges, and questions that have one answer on npu."""
    nvtx: Any = import_module("torch.cuda.nvtx")
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(nvtx, name, _nothing)
    cuda: Any = torch.cuda
    cuda.is_tf32_supported = lambda: False
    cuda.get_arch_list = list


def _amp() -> None:
    cuda_amp: Any = import_module("torch.cuda.amp")
    parts = (cuda_amp, import_module("torch.cuda.amp.autocast_mode"), import_module("torch.cuda.amp.grad_scaler"))
    for name in ("autocast", "custom_fwd", "custom_bwd", "GradScaler"):
        for part in parts:
            if hasattr(part, name):
                setattr(part, name, getattr(amp, name))


def install() -> list[str]:
    """Do it, and tell which names now are npu's."""
    cuda: Any = torch.cuda
    genuine = cuda.is_available, cuda.device_count
    _translate_constructors()
    names = _point(cuda, npu)
    cuda.is_available = _asked_here(genuine[0], npu.is_available)
    cuda.device_count = _asked_here(genuine[1], npu.device_count)
    cuda.default_generators = npu.default_generators
    for name, ours in _OTHER_NAMES.items():
        setattr(cuda, name, getattr(npu, ours))
    for name in _SHARED:
        part = import_module(f"torch.cuda.{name}")
        _point(part, import_module(f"torch_npu.npu.{name}"))
        for old, ours in _OTHER_NAMES.items():
            if isclass(vars(part).get(old)):
                setattr(part, old, getattr(npu, ours))
    for name, value in vars(npu).items():
        if name.endswith(("Tensor", "Storage")) and hasattr(cuda, name) and name != "DoubleTensor":
            setattr(cuda, name, value)
    utils: Any = import_module("torch.cuda._utils")
    utils._get_device_index = translated(npu._get_device_index)
    _quiet_tools()
    _amp()
    return [f"torch.cuda.{name}" for name in [*names, *_OTHER_NAMES]]
