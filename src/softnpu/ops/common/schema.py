"""The description of an operator: what it is called and takes (`Schema`), and with its meaning (`Operator`, `Row`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from softnpu.ops.common.builder import Array, Builder, Shape, Site

REQUIRED = object()  # default of an attribute that has none
Lower = Callable[[Builder, Site], "str | tuple[str, ...]"]
Compute = Callable[..., "tuple[Array, ...]"]
Infer = Callable[[Site], "list[tuple[int, Shape | None]]"]


@dataclass(frozen=True)
class Schema:
    """What an operator is called and takes. Names end in `?` when optional, in `*` when there may be any number."""

    type: str
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("y",)
    attrs: dict[str, Any] = field(default_factory=dict)
    note: str = ""  # what the support page says about limits


@dataclass(frozen=True)
class Operator:
    """A schema with its meaning."""

    schema: Schema
    lower: Lower | None
    compute: Compute | None
    infer: Infer | None


@dataclass(frozen=True)
class Row:
    """An operator without a file: a shared body says all of it. `meaning` is for readers."""

    schema: Schema
    lower: Lower
    meaning: str
