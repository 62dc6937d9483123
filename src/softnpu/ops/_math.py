"""Element-wise bodies: one ONNX operator, with a detour where the engines lack a type.

The engines compute some operators in few types only. `DOUBLES` and its like map an aclDataType to the one it is computed in;
the result is converted back, so that the operator keeps the type of its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softnpu.ops._lower import Array, Builder, OpError, Shape, Site
from softnpu.ops._schema import Lower

FLOAT, HALF, INT8, INT32, UINT8, INT16, UINT16, UINT32, INT64, UINT64, DOUBLE, BOOL = (
    0,
    1,
    2,
    3,
    4,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
)
FLOATS = frozenset({FLOAT, HALF, DOUBLE, 27})
SHORTS = {INT16: INT32, UINT16: INT32}
SMALL = {INT8: INT32, UINT8: INT32, INT16: INT32, UINT16: INT32, UINT32: INT64}
DOUBLES = {DOUBLE: FLOAT}
NOTHING: Mapping[int, int] = {}


def unary(word: str, via: Mapping[int, int] = NOTHING, **attrs: Any) -> Lower:
    """The ONNX operator `word` on one input."""

    def lower(b: Builder, n: Site) -> str:
        return through(b, n, 1, via, lambda x: str(b.op(word, x, **attrs)))

    return lower


def binary(word: str, via: Mapping[int, int] = NOTHING, **attrs: Any) -> Lower:
    """The ONNX operator `word` on two inputs that broadcast."""

    def lower(b: Builder, n: Site) -> str:
        return through(b, n, 2, via, lambda x, y: str(b.op(word, x, y, **attrs)))

    return lower


def through(b: Builder, n: Site, count: int, via: Mapping[int, int], body: Any) -> str:
    """Give the first inputs to a body in the type that `via` has for theirs, and convert its result back."""
    names = [n.input(index) for index in range(count)]
    dtype = n.dtype(0)
    if dtype not in via:
        return str(body(*names))
    return b.cast(body(*(b.cast(name, via[dtype]) for name in names)), dtype)


def fold_left(b: Builder, word: str, names: list[str]) -> str:
    """A chain of a binary operator over any number of values."""
    if len(names) == 1:
        return str(b.op("Identity", names[0]))
    found = names[0]
    for name in names[1:]:
        found = str(b.op(word, found, name))
    return found


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
    return [int(one) for one in array.reshape(-1)]
