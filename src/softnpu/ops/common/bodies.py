"""Bodies of operators that are one ONNX operator, with a detour where the engines lack a type.

The result of a detour is converted back, so that the operator keeps the type of its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import NOTHING
from softnpu.ops.common.schema import Lower


def unary(onnx_type: str, via: Mapping[int, int] = NOTHING, **attrs: Any) -> Lower:
    """The ONNX operator `onnx_type` on one input."""

    def lower(b: Builder, n: Site) -> str:
        return through(b, n, 1, via, lambda x: str(b.op(onnx_type, x, **attrs)))

    return lower


def binary(onnx_type: str, via: Mapping[int, int] = NOTHING, **attrs: Any) -> Lower:
    """The ONNX operator `onnx_type` on two inputs that broadcast."""

    def lower(b: Builder, n: Site) -> str:
        return through(b, n, 2, via, lambda x, y: str(b.op(onnx_type, x, y, **attrs)))

    return lower


def plain(onnx_type: str) -> Lower:
    """The ONNX operator `onnx_type` with the same inputs and no attributes."""

    def lower(b: Builder, n: Site) -> str:
        return str(b.op(onnx_type, *n.inputs))

    return lower


def through(b: Builder, n: Site, count: int, via: Mapping[int, int], body: Any) -> str:
    """Give the first inputs to a body in the type that `via` has for theirs, and convert its result back."""
    names = [n.input(index) for index in range(count)]
    dtype = n.dtype(0)
    if dtype not in via:
        return str(body(*names))
    return b.cast(body(*(b.cast(name, via[dtype]) for name in names)), dtype)


def fold_left(b: Builder, onnx_type: str, names: list[str]) -> str:
    """A chain of a binary operator over any number of values."""
    if len(names) == 1:
        return str(b.op("Identity", names[0]))
    folded = names[0]
    for name in names[1:]:
        folded = str(b.op(onnx_type, folded, name))
    return folded
