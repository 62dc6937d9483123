"""The operators of `torch.ops.npu`: schemas from the rows, bodies in the modules of this package, loaded when first called.

A body is a composition of aten operators under the key CompositeImplicitAutograd: derivatives, shapes for fake tensors and autocast
follow from what it is made of. Its name is the operator's, with `__` before the overload: `npu_max.dim` is `npu_max__dim`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from torch_npu._errors import ErrCode, ops_error
from torch_npu.operators._generated.schemas import PUBLIC, SCHEMAS

__all__ = ["PUBLIC", "register"]

_library: Any = None


@contextmanager
def without_collecting() -> Iterator[None]:
    """For a thousand objects that stay: looking for garbage among them costs more than making them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def body_of(module: str, name: str) -> Callable[..., Any]:
    """The function behind an operator, from the module that its row names; where it names none, one that says so."""
    if not module:
        return _missing(name)
    body: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), name.replace(".", "__"))
    return body


def _missing(name: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(
            f"npu::{name} is declared but not supported by this softnpu-torch; docs/support/npu_operators.md lists those that are. "
            "Write it with aten operators." + ops_error(ErrCode.NOT_SUPPORT)
        )

    return refuse


def _lazy(module: str, name: str) -> Callable[..., Any]:
    """A kernel that looks for its body when it is first called: importing them all would cost every program their time."""
    body: Callable[..., Any] | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal body
        if body is None:
            body = body_of(module, name)
        return body(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def register() -> None:
    """Declare every operator that C++ has not, and give it its kernel. torch.library does the same in three times the time."""
    global _library
    if _library is not None:
        return
    with without_collecting():
        _library = _declare()


def _declare() -> Any:
    library: Any = torch._C._dispatch_library("FRAGMENT", "npu", "")  # torch's stub lacks arguments of its methods
    in_cpp = {name.removeprefix("npu::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("npu::")}
    for module, schemas in SCHEMAS.items():
        for schema in schemas:
            name = schema.partition("(")[0]
            if name in in_cpp:
                continue
            library.define(schema, "", ())
            kernel = _lazy(module, name)
            library.impl(name, "CompositeImplicitAutograd", kernel, False)
            library.impl(name, "FuncTorchBatchedDecomposition", kernel, False)  # vmap goes into the composition
    return library
