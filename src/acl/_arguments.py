"""How the binding takes arguments: each kind of a row is a converter, with the binding's own complaints; a handle an object."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

from softnpu.base.errors import Raise
from softnpu.base.log import WARNING, log
from softnpu.runtime.process import SURVIVES_FINALIZE, process

M64 = (1 << 64) - 1
_M32 = (1 << 32) - 1
_RANGES = {
    "i16": (-(1 << 15), (1 << 15) - 1),
    "i32": (-(1 << 31), (1 << 31) - 1),
    "i64": (-(1 << 63), (1 << 63) - 1),
    "u8": (0, 255),
    "n32": (0, (1 << 32) - 1),
}
_SINGLE = struct.Struct("<f")
_index = operator.index


def _u64(value: Any) -> int:
    return _index(value) & M64


def _u32(value: Any) -> int:
    return _index(value) & _M32


def _ranged(low: int, high: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        number = _index(value)
        if not low <= number <= high:
            raise TypeError
        return number

    return convert


def _float(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError
    return float(value)


def _float32(value: Any) -> float:
    """A C float: rounded to single precision, infinite beyond its range."""
    number = _float(value)
    try:
        single: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return single


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    value.encode()
    return str(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise Raise(ValueError("needs an byte as argument"))
    return value


def _array(value: Any) -> Any:
    import numpy

    if not isinstance(value, numpy.ndarray):
        raise Raise(ValueError("needs an ndarray as argument"))
    return value


def _tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise TypeError
    return tuple(value)


def _dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return dict(value)


def _callable(value: Any) -> Any:
    if not callable(value):
        raise Raise(TypeError("parameter must be callable"))
    return value


def _callable_or_none(value: Any) -> Any:
    return None if value is None else _callable(value)


def _same(value: Any) -> Any:
    return value


_SCALARS: dict[str, Callable[[Any], Any]] = {
    **{name: _ranged(low, high) for name, (low, high) in _RANGES.items()},
    "u32": _u32,
    "u64": _u64,
    "ptr": _u64,
    "f32": _float32,
    "f64": _float,
    "str": _text,
    "bytes": _bytes,
    "ndarray": _array,
    "tuple": _tuple,
    "dict": _dict,
    "callable": _callable,
    "callable?": _callable_or_none,
    "object": _same,
}


def _list_of(kind: str, position: int) -> Callable[[Any], list[Any]]:
    inner = kind[5:-1] if kind.startswith("list[") else "object"
    item = _list_of(inner, position) if inner.startswith("list") else _SCALARS.get(inner, _u64)
    types = {"i64": "int", "u64": "int", "i32": "int", "u32": "int", "f64": "float", "f32": "float", "str": "str"}
    type_ = types.get(inner, "int" if inner not in _SCALARS else inner)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            if inner in types and type(value).__module__ == "numpy" and hasattr(value, "tolist"):
                log().write(WARNING, "an ndarray was given where a list is expected; this is deprecated", "ASCENDCL")
                value = value.tolist()
            if not isinstance(value, list):
                raise Raise(TypeError(f"argument {position} is not list"))
        try:
            return [item(element) for element in list(value)]
        except (TypeError, ValueError, OverflowError):
            raise Raise(TypeError(f"the list argument is not list of {type_}")) from None

    return convert


def converter(kind: str, position: int) -> Callable[[Any], Any]:
    """How an argument of this kind is taken; every kind that is no scalar and no list is a handle."""
    if kind.startswith("list"):
        return _list_of(kind, position)
    return _SCALARS.get(kind, _u64)


def is_handle(kind: str) -> bool:
    """Whether a kind names a handle."""
    return kind not in _SCALARS and not kind.startswith("list")


def _stream(handle: int) -> Any:
    return process().stream(handle)


def resolver(kind: str) -> Callable[[int], Any]:
    """How a handle of this kind becomes its object: `stream` takes 0 as the default stream, `x?` takes 0 as None."""
    if kind == "stream":
        return _stream
    if kind.endswith("?"):
        plain = kind[:-1]
        return lambda handle: process().handles.get(plain, handle) if handle else None
    name = kind.rstrip("!")

    def resolve(handle: int) -> Any:
        owner = process()
        value = owner.handles.peek(name, handle)
        if value is None:
            if handle and name not in SURVIVES_FINALIZE:
                owner.need_start()
            raise owner.handles.error(name, handle)
        return value

    return resolve
