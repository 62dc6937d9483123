"""The Python side of an adapter: bodies registered, custom operators bound to their names."""

from __future__ import annotations

import keyword
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

import torch

from torch_npu.adapt import _schemas
from torch_npu.adapt._file import AdaptError, Entry, Functions

Bodies = ModuleType | Mapping[str, Callable[..., Any]]


def body_name(name: str) -> str:
    """The function of an operator: add.Tensor is add__Tensor."""
    return name.replace(".", "__")


def _find(bodies: Bodies, name: str) -> Callable[..., Any] | None:
    body = bodies.get(name) if isinstance(bodies, Mapping) else getattr(bodies, name, None)
    return body if callable(body) else None


def registrations(functions: Functions, bodies: Bodies) -> list[tuple[Entry, str, Callable[..., Any]]]:
    """Every entry with its keys and bodies; one that has none is an error."""
    rows, missing = [], []
    for entry in functions.entries:
        if entry.called_only:
            continue
        wanted = entry.dispatch or dict.fromkeys(entry.keys, body_name(entry.name))
        for key, name in wanted.items():
            body = _find(bodies, name)
            if body is None:
                missing.append((entry, name))
            else:
                rows.append((entry, key, body))
    if missing:
        lines = ", ".join(sorted({f"{name} (for {entry.name}, line {entry.line})" for entry, name in missing}))
        raise AdaptError(f"{functions.path}: the bodies lack {lines}")
    return rows


@cache
def _declarations() -> torch.library.Library:
    """Never given back: a program may hold an operator longer than its adapter."""
    return torch.library.Library("npu", "FRAGMENT")


def _declare(functions: Functions) -> None:
    for entry in functions.entries:
        if entry.custom and not entry.exists and entry.name not in _schemas.defined:
            _declarations().define(entry.schema, tags=tuple(getattr(torch.Tag, tag) for tag in entry.tags))
            _schemas.defined.add(entry.name)


def register(functions: Functions, bodies: Bodies) -> list[torch.library.Library]:
    """Declare and register; the libraries keep the bodies in place while they live."""
    rows = registrations(functions, bodies)
    _declare(functions)
    npu, aten = torch.library.Library("npu", "IMPL"), torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Warning only once for all operators"
            )  # to override is what was asked for
            for entry, key, body in rows:
                (npu if entry.custom else aten).impl(entry.name, body, key, allow_override=True)
    except BaseException:
        npu._destroy()
        aten._destroy()
        raise
    return [npu, aten]


def bind(functions: Functions, package: ModuleType) -> list[tuple[Any, str]]:
    """Give custom operators their names: functions in torch_npu, methods of Tensor. Returns what was added."""
    added: list[tuple[Any, str]] = []
    for entry in functions.entries:
        base = entry.name.partition(".")[0]
        if not entry.custom or entry.called_only:
            continue
        operator = getattr(torch.ops.npu, base)
        if entry.exposed and "function" in entry.variants and not hasattr(package, base):
            setattr(package, base, operator)
            added.append((package, base))
        if "method" in entry.variants and not hasattr(torch.Tensor, base):
            setattr(torch.Tensor, base, _method(operator, base))
            added.append((torch.Tensor, base))
    return added


def _method(operator: Any, name: str) -> Callable[..., Any]:
    def call(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return operator(self, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _names(functions: Functions, exposed: bool) -> list[str]:
    names = {
        entry.name.partition(".")[0] for entry in functions.entries if entry.custom and (entry.exposed or not exposed)
    }
    return sorted(name for name in names if not keyword.iskeyword(name))


def custom_ops(functions: Functions) -> str:
    """custom_ops.py: every custom operator as a name."""
    names = _names(functions, exposed=False)
    lines = [f"{name} = torch.ops.npu.{name}" for name in names]
    head = f'"""Generated from {functions.path.name} by torch_npu.adapt; do not edit."""\n\nimport torch\n'
    return head + "\n" + "\n".join([*lines, "", f"__all__ = {names!r}", ""])


def exposed_api(functions: Functions) -> str:
    """exposed_api.py: the names that are public."""
    head = f'"""Generated from {functions.path.name} by torch_npu.adapt; do not edit."""\n\n'
    return head + f"public_npu_functions = {_names(functions, exposed=True)!r}\n"
