"""torch's own functions, tensors, modules and classes that take a device: they read cuda as npu."""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from importlib import import_module
from typing import Any

import torch
from torch.utils._device import DeviceContext, _device_constructors

from torch_npu.contrib._after_import import after_import
from torch_npu.contrib._transfer_values import (
    npu_of,
    npus_of,
    place_of,
    standing_for,
    translated,
    with_keyword,
)

_LIKE = (
    "empty_like",
    "full_like",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "zeros_like",
    "from_file",
    "normal",
)
_TENSOR_METHODS = ("new", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
_TRANSLATED = ("set_default_device", "set_default_tensor_type", "is_autocast_enabled", "get_autocast_dtype")
_C_CLASSES = ("Generator", "Event", "Stream")
_SETTERS = ("set_autocast_enabled", "set_autocast_dtype")


def _factories() -> list[str]:
    """Wrap what makes tensors. torch must have listed the originals before: its default device looks them up by identity."""
    names = []
    for module, prefix in ((torch, "torch"), (torch.fft, "torch.fft"), (torch.nested, "torch.nested")):
        for name, value in list(vars(module).items()):
            if (name in _LIKE and module is torch) or (callable(value) and value in _device_constructors()):
                setattr(module, name, with_keyword(value))
                names.append(f"{prefix}.{name}")
    return names


def _cuda(self: torch.Tensor, device: Any = None, non_blocking: bool = False, **options: Any) -> torch.Tensor:
    """`Tensor.npu` under its CUDA name."""
    return self.npu(npu_of(device), non_blocking, **options)  # type: ignore[attr-defined]


def _module_cuda(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """`Module.npu` under its CUDA name."""
    return self.npu(npu_of(device))  # type: ignore[operator]


def _is_cuda(self: Any) -> bool:
    """Whether it is on an accelerator: npu here."""
    return self.device.type in ("npu", "cuda")


def _tensors() -> None:
    tensor: Any = torch.Tensor
    for name in _TENSOR_METHODS:
        setattr(tensor, name, with_keyword(getattr(tensor, name)))
    for name in ("to", "type", "pin_memory", "is_pinned"):
        setattr(tensor, name, translated(getattr(tensor, name)))
    tensor.cuda = _cuda
    tensor.is_cuda = property(_is_cuda)
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        kind: Any = storage
        kind.cuda = _cuda
        kind.is_cuda = property(_is_cuda)


def _modules() -> None:
    module: Any = torch.nn.Module
    for name in ("to", "to_empty", "type"):
        setattr(module, name, translated(getattr(module, name)))
    module.cuda = _module_cuda


def _wrap_init(kind: Any, default: tuple[str, Any] | None = None) -> None:
    """Translate what a class is made with; `default` fills in an argument whose default says cuda."""
    original = kind.__init__

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if default is not None and not args:
            kwargs.setdefault(*default)
        original(
            self, *[npus_of(argument) for argument in args], **{name: npus_of(value) for name, value in kwargs.items()}
        )

    kind.__init__ = __init__


def _classes() -> None:
    names: Any = torch
    for name in _C_CLASSES:
        setattr(names, name, standing_for(getattr(names, name)))
    _wrap_init(DeviceContext)
    _wrap_init(torch.amp.autocast_mode.autocast)
    _wrap_init(torch.amp.GradScaler, ("device", "npu"))
    loader: Any = torch.utils.data.DataLoader
    loader.__init__ = with_keyword(loader.__init__, "pin_memory_device")
    parallel: Any = torch.nn.parallel
    for kind in (parallel.DataParallel, parallel.DistributedDataParallel):
        _wrap_init(kind)


def _functions() -> None:
    names: Any = torch
    for name in (*_TRANSLATED, *_SETTERS):
        setattr(names, name, translated(getattr(names, name)))
    names.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("npu")
    names.set_autocast_gpu_dtype = lambda dtype: torch.set_autocast_dtype("npu", dtype)
    names.random.fork_rng = translated(names.random.fork_rng)
    names.compile = _compile(names.compile)
    after_import("torch._dynamo.variables.tensor", _compiled_is_cuda)
    amp: Any = torch.amp
    for name in ("custom_fwd", "custom_bwd", "is_autocast_available"):
        setattr(amp, name, translated(getattr(amp, name)))


def _compile(original: Any) -> Any:
    """A backend of CUDA graphs is that of npu graphs."""

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("backend") == "cudagraphs":
            kwargs["backend"] = "npugraphs"
        return original(*args, **kwargs)

    return compile


def _compiled_is_cuda(module: Any) -> None:
    """torch.compile answers `x.is_cuda` itself, from the name of the device."""
    kind = module.TensorVariable
    original = kind.method_attr_is_cuda

    @wraps(original)
    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        on_npu = self.device is not None and self.device.type == "npu"
        return module.ConstantVariable.create(True) if on_npu else original(self, tx)

    kind.method_attr_is_cuda = method_attr_is_cuda


def _from_cuda(storage: Any, location: str) -> Any:
    """Tensors that a file says were on cuda come back on npu."""
    if not location.startswith("cuda"):
        return None
    return torch.serialization.default_restore_location(storage, npu_of(location))


def _loading() -> None:
    def load(original: Any) -> Any:
        @wraps(original)
        def call(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            return original(f, place_of(map_location), *args, **kwargs)

        return call

    names: Any = torch
    names.load = names.serialization.load = load(torch.load)
    names.jit.load = load(torch.jit.load)
    torch.serialization.register_package(4, lambda _storage: None, _from_cuda)


def _scripting() -> None:
    """`torch.jit.script` gives back what it is given: operators of npu are not known to TorchScript. torch's own uses stay."""
    original = torch.jit.script

    @wraps(original)
    def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if str(sys._getframe(1).f_globals.get("__name__", "")).startswith("torch."):
            return original(obj, *args, **kwargs)
        warnings.warn(
            "torch.jit.script is switched off by transfer_to_npu: the function or module runs as it is",
            RuntimeWarning,
            stacklevel=2,
        )
        return obj

    names: Any = torch.jit
    names.script = script


def _activities(wanted: Any) -> Any:
    activity = torch.profiler.ProfilerActivity
    ours = getattr(activity, "NPU", activity.PrivateUse1)
    return None if wanted is None else [ours if entry == activity.CUDA else entry for entry in wanted]


def _profiling() -> None:
    """Profilers that ask for CUDA's times get npu's; options made for CUDA are left away with a word."""
    kind: Any = import_module("torch.profiler.profiler")._KinetoProfile
    original = kind.__init__

    @wraps(original)
    def __init__(self: Any, *, activities: Any = None, experimental_config: Any = None, **options: Any) -> None:
        if experimental_config is not None:
            warnings.warn(
                "the experimental_config of a CUDA profiler has no meaning on npu and is left away", stacklevel=3
            )
        original(self, activities=_activities(activities), **options)

    kind.__init__ = __init__
    profile: Any = torch.autograd.profiler.profile
    plain = profile.__init__

    @wraps(plain)
    def start(self: Any, *args: Any, use_cuda: bool = False, use_device: str | None = None, **options: Any) -> None:
        device = "npu" if use_cuda else npu_of(use_device)
        plain(self, *args, use_device=device, **options)

    profile.__init__ = start


def install() -> list[str]:
    """Do it, and tell the names."""
    factories = _factories()
    _tensors()
    _modules()
    _classes()
    _functions()
    _loading()
    _scripting()
    _profiling()
    return [
        *factories,
        *(f"torch.Tensor.{name}" for name in (*_TENSOR_METHODS, "to", "type", "cuda", "is_cuda", "pin_memory")),
        *(f"torch.nn.Module.{name}" for name in ("to", "to_empty", "type", "cuda")),
        *(f"torch.{name}" for name in (*_TRANSLATED, *_SETTERS, *_C_CLASSES, "load", "autocast", "compile")),
        "torch.amp.GradScaler",
        "torch.jit.script",
        "torch.jit.load",
        "torch.profiler.profile",
        "torch.autograd.profiler.profile",
        "torch.utils.data.DataLoader",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
    ]
