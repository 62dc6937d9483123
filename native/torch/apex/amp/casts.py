"""Casts around functions: which tensors change, and to what."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from apex.amp._amp_state import _amp_state

Caster = Callable[[Any], Any]


class Cache:
    """Weights in half precision, cast once per iteration however often they are used; a backward pass ends an iteration."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Tensor, tuple[int, int], Tensor]] = {}

    def half(self, x: Tensor) -> Tensor:
        """The half of a weight. Without a graph it is made anew: `x.data` may have been written, which no version tells."""
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return x.half()
        key, mark = id(x), (x._version, x.data_ptr())
        entry = self.kept.get(key)
        if entry is None or entry[0] is not x or entry[1] != mark:
            entry = self.kept[key] = (x, mark, x.half())
            # A later forward pass must not use this graph: FSDP would see the gradient only after it asked for it.
            entry[2].register_hook(lambda _: self._forget(key))
        return entry[2]

    def _forget(self, key: int) -> None:
        self.kept.pop(key, None)


@contextmanager
def disable_casts() -> Iterator[None]:
    """A block in which O1 casts nothing."""
    handle = _amp_state.handle
    if handle is None:
        yield
        return
    before, handle.active = handle.active, False
    try:
        yield
    finally:
        handle.active = before


def applied(caster: Caster, value: Any) -> Any:
    """A caster over tensors in lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return caster(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(applied(caster, element) for element in value))
    if isinstance(value, list | tuple):
        return type(value)(applied(caster, element) for element in value)
    if isinstance(value, dict):
        return {key: applied(caster, element) for key, element in value.items()}
    return value


def to_half(x: Tensor) -> Tensor:
    """float32 on npu becomes float16; weights through the cache."""
    if x.dtype != torch.float32 or x.device.type != "npu":
        return x
    handle = _amp_state.handle
    if handle is not None and handle.cache is not None and x.is_leaf and x.requires_grad:
        return handle.cache.half(x)
    return x.half()


def to_float(x: Tensor) -> Tensor:
    """float16 on npu becomes float32."""
    return x.float() if x.dtype == torch.float16 and x.device.type == "npu" else x


def to_dtype(dtype: torch.dtype, x: Tensor) -> Tensor:
    """Any floating tensor on npu in another type."""
    return x.to(dtype) if x.is_floating_point() and x.device.type == "npu" else x


def _has_float(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dtype == torch.float32 and value.device.type == "npu"
    if isinstance(value, dict):
        value = value.values()
    return isinstance(value, list | tuple | type({}.values())) and any(_has_float(element) for element in value)


def _in_half(args: Any, kwargs: Any) -> tuple[Any, Any]:
    return applied(to_half, args), applied(to_half, kwargs)


def _in_float(args: Any, kwargs: Any) -> tuple[Any, Any]:
    return applied(to_float, args), applied(to_float, kwargs)


def _widest(args: Any, kwargs: Any) -> tuple[Any, Any]:
    return _in_float(args, kwargs) if _has_float(args) or _has_float(kwargs) else (args, kwargs)


def _as_self(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The tensor that is written to decides."""
    caster = functools.partial(_like, args[0])
    return (args[0], *applied(caster, args[1:])), applied(caster, kwargs)


def _like(target: Tensor, x: Tensor) -> Tensor:
    pair = (torch.float16, torch.float32)
    return x.to(target.dtype) if target.dtype in pair and x.dtype in pair and x.device == target.device else x


KINDS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "half": _in_half,
    "float": _in_float,
    "promote": _widest,
    "as self": _as_self,
}


def wrapped(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """The function with casts before it while amp is on. A call that writes into `out` is the caller's own decision."""
    cast = KINDS[kind]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        handle = _amp_state.handle
        if handle is None or not handle.active or kwargs.get("out") is not None:
            return function(*args, **kwargs)
        args, kwargs = cast(args, kwargs)
        return function(*args, **kwargs)

    return call


def banned(function: Callable[..., Any], name: str, instead: str) -> Callable[..., Any]:
    """The function, refused for halves while amp is on."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        handle = _amp_state.handle
        halves = [
            argument
            for argument in (*args, *kwargs.values())
            if isinstance(argument, Tensor) and argument.dtype == torch.float16
        ]
        if handle is not None and handle.active and any(half.device.type == "npu" for half in halves):
            raise NotImplementedError(
                f"amp does not work out-of-the-box with {name}: in half precision it overflows. Use {instead}, which is safe, or "
                "call it on float32 under 'with amp.disable_casts():'"
            )
        return function(*args, **kwargs)

    return call
