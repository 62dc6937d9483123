"""What `cuda` in an argument becomes, and wrappers that make it so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

_TYPES = "torch.cuda."

# Programs of torch itself, and of libraries that know npu by its own name, must hear the truth about CUDA: they would call
# functions that exist on no other device.
_GENUINE_MODULES = (
    "torch._C",
    "torch._dynamo",
    "torch._functorch",
    "torch._inductor",
    "torch._utils",
    "torch.backends",
    "torch.cuda",
    "torch.fx",
    "torch.testing",
    "torch.utils.collect_env",
    "torch.utils.cpp_extension",
)
_FOR_PROGRAMS = "torch._dynamo.variables"  # asks what the program that it compiles asks
_GENUINE_FUNCTIONS = {
    ("accelerate.utils.imports", "is_cuda_available"),
    ("transformers.utils.import_utils", "is_torch_cuda_available"),
}


def asked_by_torch() -> bool:
    """Whether the function two frames above is one that must hear about CUDA and not about npu."""
    frame = sys._getframe(2)
    name = str(frame.f_globals.get("__name__", ""))
    if name.startswith(_GENUINE_MODULES):
        return not name.startswith(_FOR_PROGRAMS)
    return (name, frame.f_code.co_name) in _GENUINE_FUNCTIONS


def npu_of(value: Any) -> Any:
    """`value` with cuda turned to npu where it is a device, as text or as torch.device; anything else as it is."""
    if isinstance(value, str):
        if value == "cuda" or value.startswith("cuda:"):
            return "npu" + value[4:]
        return type_of(value) if value.startswith(_TYPES) else value
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    return value


def type_of(name: str) -> str:
    """The npu type of a name such as torch.cuda.HalfTensor; DoubleTensor is FloatTensor, which the chip computes with."""
    return "torch.npu." + name.removeprefix(_TYPES).replace("DoubleTensor", "FloatTensor")


def npus_of(value: Any) -> Any:
    """The same inside lists, tuples and sets."""
    return type(value)(npu_of(element) for element in value) if type(value) in (list, tuple, set) else npu_of(value)


def place_of(value: Any) -> Any:
    """A `map_location`: in a dict the devices of the file keep their names and get those they have when saved from npu."""
    if not isinstance(value, dict):
        return npu_of(value)
    return {name: npu_of(target) for key, target in value.items() for name in (key, npu_of(key))}


def translated(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function with every argument translated."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(
            *[npus_of(argument) for argument in args], **{name: npus_of(value) for name, value in kwargs.items()}
        )

    return call


def with_keyword(original: Callable[..., Any], name: str = "device") -> Callable[..., Any]:
    """The function with one keyword translated: factories take no device elsewhere, and are called often."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get(name)
        if device is not None:
            kwargs[name] = npu_of(device)
        return original(*args, **kwargs)

    return call


class _Translating(type):
    """The type of a class that stands for one written in C: made with translated arguments, instances are the original's."""

    original: type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        moved = [npu_of(argument) for argument in args], {name: npu_of(value) for name, value in kwargs.items()}
        return cls.original(*moved[0], **moved[1]) if cls._stands() else super().__call__(*moved[0], **moved[1])

    def _stands(cls) -> bool:
        """Whether it is the stand-in itself and not a class that a program derives from it."""
        return "original" in vars(cls)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original) if cls._stands() else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original) if cls._stands() else super().__subclasscheck__(subclass)


def standing_for(original: type) -> type:
    """A class in place of one that cannot be changed."""
    words = {"original": original, "__doc__": original.__doc__, "__module__": original.__module__}
    above = type(original)  # torch gives some of its classes a type of their own
    kind = _Translating if above is type else type(_Translating.__name__, (_Translating, above), {})
    return kind(original.__name__, (original,), words)
