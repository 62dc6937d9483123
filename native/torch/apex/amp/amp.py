"""Functions with casts: torch's own, those that the user registers, and the older entry `amp.init`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from apex.amp import casts, lists
from apex.amp._amp_state import _amp_state
from apex.amp.handle import AmpHandle, NoOpHandle

_user: list[tuple[Any, str, str]] = []


def half_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose float32 arguments become float16 while amp (O1) is on."""
    return casts.wrapped(function, "half")


def float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose float16 arguments become float32 while amp (O1) is on."""
    return casts.wrapped(function, "float")


def promote_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose arguments all become float32 if one of them is, while amp (O1) is on."""
    return casts.wrapped(function, "promote")


def _register(module: Any, name: str, kind: str) -> None:
    if not hasattr(module, name):
        raise ValueError(f"No function named {name} in module {module}.")
    _user.append((module, name, kind))
    if _amp_state.handle is not None and _amp_state.handle.active:
        _amp_state.handle.replace(module, name, casts.wrapped(getattr(module, name), kind))


def register_half_function(module: Any, name: str) -> None:
    """`half_function` for `module.name`; before `amp.initialize`, so that amp's own lists come after."""
    _register(module, name, "half")


def register_float_function(module: Any, name: str) -> None:
    """`float_function` for `module.name`."""
    _register(module, name, "float")


def register_promote_function(module: Any, name: str) -> None:
    """`promote_function` for `module.name`."""
    _register(module, name, "promote")


def _check_any_type(check: Callable[..., None]) -> Callable[..., None]:
    """A recurrent layer compares the type of its input with that of its weights; under O1 both become halves later."""

    @functools.wraps(check)
    def call(self: Any, input: Tensor, batch_sizes: Tensor | None) -> None:
        handle = _amp_state.handle
        if handle is not None and handle.active:
            input = torch.empty(input.shape, dtype=self._flat_weights[0].dtype, device="meta")
        check(self, input, batch_sizes)

    return call


def start_casts(handle: AmpHandle, user_preferred: bool) -> None:
    """Put the casts around torch's functions and make the handle their switch."""
    if _amp_state.handle is not None:
        _amp_state.handle.deactivate()
    for module, name, kind in _user:
        handle.replace(module, name, casts.wrapped(getattr(module, name), kind))
    mine = {(id(module), name) for module, name, _ in _user} if user_preferred else set()
    for module, name, kind in lists.rows():
        if (id(module), name) not in mine:
            handle.replace(module, name, casts.wrapped(getattr(module, name), kind))
    for module, name, known_as, instead in lists.BANNED:
        if (id(module), name) not in mine:
            handle.replace(module, name, casts.banned(getattr(module, name), known_as, instead))
    handle.replace(nn.RNNBase, "check_input", _check_any_type(nn.RNNBase.check_input))
    _amp_state.handle = handle


def init(
    enabled: bool = True,
    loss_scale: float | str = "dynamic",
    enable_caching: bool = True,
    verbose: bool = False,
    allow_banned: bool = False,
) -> AmpHandle | NoOpHandle:
    """The older entry: casts as with O1, and a handle with `scale_loss` and `wrap_optimizer`."""
    if not enabled:
        return NoOpHandle()
    if allow_banned:
        raise ValueError(
            "amp.init: allow_banned=True is not supported; call the function under handle.disable_casts() instead"
        )
    handle = AmpHandle(loss_scale, enable_caching, verbose)
    start_casts(handle, user_preferred=False)
    return handle
