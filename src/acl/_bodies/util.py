"""Bodies of `acl.util`: addresses of Python objects, views of memory, threads."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from softnpu.base.errors import NpuError, Raise
from softnpu.runtime import threads
from softnpu.runtime.process import process

_BYTES_HEADER = bytes.__basicsize__ - 1


def _address(array: Any) -> int:
    if array.dtype.hasobject:
        raise Raise(
            ValueError("an array of Python objects has no memory that can be copied; convert it to a number type")
        )
    address = int(array.__array_interface__["data"][0])
    process().memory.pins.add_array(address, array)
    return address


@contextmanager
def _wrong_pointer_raises() -> Iterator[None]:
    """These calls answer no code, so a wrong pointer is a ValueError: data that is not there must not pass as empty."""
    try:
        yield
    except NpuError as error:
        raise Raise(ValueError(f"{error.text}; {error.remedy}")) from error


def _warn(text: str) -> None:
    try:
        warnings.warn(text, Warning, stacklevel=4)
    except Warning as error:  # the program turned warnings into exceptions
        raise Raise(error) from None


def numpy_to_ptr(array: Any) -> int:
    _warn("acl.util.numpy_to_ptr is deprecated, use numpy's tobytes() and acl.util.bytes_to_ptr")
    if not array.flags.c_contiguous:
        _warn("the array is not contiguous, its memory is not in the order of its elements")
    return _address(array)


def numpy_contiguous_to_ptr(array: Any) -> tuple[int, Any]:
    import numpy

    whole = array if array.flags.c_contiguous else numpy.ascontiguousarray(array)
    return _address(whole), whole


def _shown(shape: tuple[Any, ...]) -> str:
    """A shape for a message; a dim that is no int is shown by its type, since its repr is the program's code."""
    return f"({', '.join(str(dim) if type(dim) is int else type(dim).__name__ for dim in shape[:8])}{', …' if len(shape) > 8 else ''})"


def ptr_to_numpy(ptr: int, shape: tuple[Any, ...], npy_type: int) -> Any:
    import numpy

    try:
        dims = tuple(operator.index(dim) for dim in shape)
        dtype = numpy.dtype(_BY_NUMBER[npy_type])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise Raise(ValueError(f"shape {_shown(shape)} or NumPy type number {npy_type} is not usable")) from None
    if any(dim < 0 for dim in dims):
        raise Raise(ValueError(f"shape {_shown(shape)} holds a negative dim"))
    try:
        with _wrong_pointer_raises():
            return process().memory.view(ptr, dims, dtype) if math.prod(dims) else numpy.empty(dims, dtype)
    except ValueError as error:  # more dims than NumPy has, or a dim that it cannot count
        raise Raise(error) from None


_BY_NUMBER = dict(
    enumerate(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "i8", "u8", "f4", "f8", "g", "F", "D", "G"])
) | {23: "f2"}


def bytes_to_ptr(data: bytes) -> int:
    address = id(data) + _BYTES_HEADER
    process().memory.pins.add_bytes(address, data)
    return address


def ptr_to_bytes(ptr: int, size: int) -> bytes:
    with _wrong_pointer_raises():
        return process().memory.read(ptr, size) if size else b""


def start_thread(fn: Callable[..., Any], args: Any) -> int:
    return threads.start(fn, args)


def stop_thread(tid: int) -> None:
    failure = threads.stop(tid)
    if failure is not None:
        raise Raise(RuntimeError(f"exception={type(failure).__name__},msg=thread call failed;"))
