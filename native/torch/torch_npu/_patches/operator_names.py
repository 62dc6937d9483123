"""The operators of `torch.ops.npu` under the names programs use: `torch_npu.npu_x`, and the older `torch.npu_x` and `x.npu_x()`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache, wraps
from types import ModuleType
from typing import Any

import torch

from torch_npu.operators import PUBLIC, without_collecting
from torch_npu.operators._generated.schemas import SCHEMAS

_PREFIX = "npu::"
_LISTED = {schema.partition("(")[0].partition(".")[0] for group in SCHEMAS.values() for schema in group}
_TARGETS = {
    schema.partition(".out(")[0]: tuple(re.findall(r"Tensor\(\w!\) (\w+)", schema))
    for group in SCHEMAS.values()
    for schema in group
    if ".out(" in schema and "!) out)" not in schema
}


def names() -> list[str]:
    """The operators there are now, without their overloads."""
    ours = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith(_PREFIX))
    return sorted({name.removeprefix(_PREFIX).partition(".")[0] for name in ours})


def _named(name: str, targets: tuple[str, ...], out: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The results that `out` holds, each under the name the schema has for it."""
    together = f"({', '.join(targets)})" if len(targets) > 1 else targets[0]
    if (twice := [target for target in targets if target in options]) != []:
        raise TypeError(f"{name}: out={together} and {', '.join(twice)}= are the same results; give one of them")
    tensors = (out,) if isinstance(out, torch.Tensor) else tuple(out)
    if len(tensors) != len(targets) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        kinds = ", ".join(type(tensor).__name__ for tensor in tensors)
        raise TypeError(f"{name}: out must be the tensors {together}, not ({kinds})")
    return dict(zip(targets, tensors, strict=True))


@cache
def _taking_out(name: str) -> Any:
    """The operator; where its schema names each of its results, also with all of them as `out`, as Ascend's binding takes them."""
    operator: Any = getattr(torch.ops.npu, name)
    targets = _TARGETS.get(name)
    if targets is None:
        return operator

    def into(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        return operator.out(*args, **kwargs, **({} if out is None else _named(name, targets, out, kwargs)))

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        return operator(*args, **kwargs) if out is None else into(*args, out=out, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = operator.__doc__
    call.__dict__.update({overload: getattr(operator, overload) for overload in operator.overloads()} | {"out": into})
    return call


def _older(name: str, spelling: str) -> Callable[..., Any]:
    """The older spelling: it works, and says once per place what to write instead. Ascend's raises."""
    operator = _taking_out(name)

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
        setattr(package, name, _taking_out(name))
    if (name in PUBLIC or name not in _LISTED) and not name.startswith("_") and name not in package.__all__:
        package.__all__.append(name)
    if not hasattr(torch, name):
        setattr(torch, name, _older(name, f"torch.{name}"))
    if name.startswith("npu_") and not hasattr(torch.Tensor, name):
        setattr(torch.Tensor, name, _older(name, f"torch.Tensor.{name}"))
