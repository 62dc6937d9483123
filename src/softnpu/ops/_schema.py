"""The description of an operator, and the register that finds it by listing the folder.

A file of this folder is one operator: `SCHEMA` (CANN's type, names of inputs and outputs, attributes with defaults) and
what it means: `lower(b, n)` in ONNX operators and/or `compute(n, *arrays)` in NumPy; `infer(n)` only where shapes cannot
be had from the lowered form. A file may describe several types that differ in a word: then `SCHEMAS` is a tuple.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from softnpu.ops._lower import Array, Builder, Shape, Site

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


def _snake(type: str) -> str:
    """File name of a CANN type: BatchMatMulV2 → batch_mat_mul_v2."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type)
    return re.sub(r"_+", "_", text).lower()


def file_of(type: str) -> str:
    """The module name an operator of this type lives in."""
    word = _snake(type)
    return f"{word}_" if word in _KEYWORDS else word


_KEYWORDS = frozenset({"if", "while", "and", "or", "not", "is", "with", "for", "from", "in"})


@cache
def find(type: str) -> Operator | None:
    """The operator of a CANN type, or None."""
    if not type.isidentifier() or type.startswith("_"):
        return None
    try:
        module = importlib.import_module(f"softnpu.ops.{file_of(type)}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("softnpu.ops."):
            return None
        raise
    schemas = getattr(module, "SCHEMAS", None) or (module.SCHEMA,)
    for schema in schemas:
        if schema.type == type:
            return Operator(
                schema, getattr(module, "lower", None), getattr(module, "compute", None), getattr(module, "infer", None)
            )
    return None


def types() -> list[str]:
    """Every CANN type that has a file, sorted."""
    import softnpu.ops as package

    found = []
    for entry in pkgutil.iter_modules(package.__path__):
        if entry.name.startswith("_"):
            continue
        module = importlib.import_module(f"softnpu.ops.{entry.name}")
        found += [schema.type for schema in getattr(module, "SCHEMAS", None) or (module.SCHEMA,)]
    return sorted(found)
