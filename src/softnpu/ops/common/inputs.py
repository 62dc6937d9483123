"""What bodies ask of the inputs at their site: contents, shapes and ranks, as ONNX wants them."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.ops.common.builder import Array, Builder, OpError, Shape, Site
from softnpu.ops.common.numbers import INT64


def int64(b: Builder, n: Site, index: int) -> str:
    """An input as int64, as ONNX wants shapes, axes and indices."""
    name = n.input(index)
    content = known(n, index)
    if content is not None and n.dtype(index) != INT64:  # shape inference does not look through a conversion
        return b.const(content.astype("int64"))
    return name if n.dtype(index) == INT64 else b.cast(name, INT64)


def known(n: Site, index: int) -> Array | None:
    """The content of an input, where it is there and a constant."""
    return n.constants[index] if index < len(n.constants) else None


def shape_of(n: Site, index: int) -> Shape | None:
    """The shape of an input, where it is there and its rank is known."""
    return n.input_shapes[index] if index < len(n.input_shapes) else None


def ints(n: Site, index: int, count: int | None = None) -> list[int]:
    """The integers of an input that must be a constant with at most one dim, and with so many elements."""
    array = n.constant(index)
    if array.ndim > 1 or array.dtype.kind not in "iu" or (count is not None and array.size != count):
        wanted = "integers" if count is None else f"{count} integers"
        raise OpError(
            f"{n.type} {n.name!r} has a constant of {array.dtype} and shape {list(array.shape)} as its input {index}; give {wanted} in a row"
        )
    return [int(number) for number in array.reshape(-1)]


def ranks(n: Site, *wanted: int) -> None:
    """Refuse inputs that have another number of dims than wanted, in their order."""
    for index, want in enumerate(wanted):
        if n.rank(index) != want:
            raise OpError(
                f"{n.type} {n.name!r} has an input {index} of shape {list(n.shape(index))}; it must have {want} dims"
            )


def pairs(n: Site, paddings: Any) -> tuple[list[int], list[int]]:
    """Amounts before and after, from a table with two columns."""
    table = np.asarray(paddings)
    if table.dtype.kind not in "iu" or table.ndim != 2 or table.shape[1] != 2 or (table < 0).any():
        raise OpError(
            f"{n.type} {n.name!r} has the paddings {table.tolist()}; give a pair of non-negative numbers per dim"
        )
    return [int(amount) for amount in table[:, 0]], [int(amount) for amount in table[:, 1]]


def number(b: Builder, n: Site, value: float, index: int = 0) -> str:
    """A scalar of the type of an input (float32 where the type is not known)."""
    dtype = n.dtype(index)
    return b.scalar(value, dtype if dtype >= 0 else 0)
