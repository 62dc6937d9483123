"""The operators of `torch.ops.npu` under the names programs use: `torch_npu.npu_x`, and the older `torch.npu_x` and `x.npu_x()`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import torch

from torch_npu.operators import PUBLIC, without_collecting
from torch_npu.operators._table import SCHEMAS

_PREFIX = "npu::"
_LISTED = {schema.partition("(")[0].partition(".")[0] for group in SCHEMAS.values() for schema in group}


def names() -> list[str]:
    """The operators there are now, without their overloads."""
    found = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith(_PREFIX))
    return sorted({name.removeprefix(_PREFIX).partition(".")[0] for name in found})


def _older(name: str, spelling: str) -> Callable[..., Any]:
    """The older spelling: it works, and says once per place what to write instead. Ascend's raises."""
    operator = getattr(torch.ops.npu, name)

    @wraps(operator)
    def call(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"{spelling} is deprecated and will be removed in future version. Use torch_npu.{name} instead.",
            FutureWarning,
            stacklevel=2,
        )
        return operator(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def expose(package: ModuleType) -> None:
    """Give every operator its names. May be called again after more operators have been registered."""
    with without_collecting():
        for name in names():
            _expose_one(package, name)


def _expose_one(package: ModuleType, name: str) -> None:
    if not hasattr(package, name):  # some have a function of their own, which tells more
        setattr(package, name, getattr(torch.ops.npu, name))
    if (name in PUBLIC or name not in _LISTED) and not name.startswith("_") and name not in package.__all__:
        package.__all__.append(name)
    if not hasattr(torch, name):
        setattr(torch, name, _older(name, f"torch.{name}"))
    if name.startswith("npu_") and not hasattr(torch.Tensor, name):
        setattr(torch.Tensor, name, _older(name, f"torch.Tensor.{name}"))
