"""Bodies of `acl.util`: addresses of Python objects, views of memory, threads."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from acl._boundary import Raise
from softnpu.runtime import threads
from softnpu.runtime.memory import ShortRead
from softnpu.runtime.process import process

_BYTES_HEADER = bytes.__basicsize__ - 1


def _address(array: Any) -> int:
    address = int(array.__array_interface__["data"][0])
    process().memory.pins.add_array(address, int(array.nbytes), array)
    return address


def numpy_to_ptr(array: Any) -> int:
    warnings.warn(
        "acl.util.numpy_to_ptr is deprecated, use numpy's tobytes() and acl.util.bytes_to_ptr", Warning, stacklevel=3
    )
    if not array.flags.c_contiguous:
        warnings.warn(
            "the array is not contiguous, its memory is not in the order of its elements", Warning, stacklevel=3
        )
    return _address(array)


def numpy_contiguous_to_ptr(array: Any) -> tuple[int, Any]:
    import numpy

    whole = array if array.flags.c_contiguous else numpy.ascontiguousarray(array)
    return _address(whole), whole


def ptr_to_numpy(ptr: int, shape: tuple[Any, ...], npy_type: int) -> Any:
    import numpy

    try:
        dims = tuple(int(dim) for dim in shape)
        dtype = numpy.dtype(_BY_NUMBER[npy_type])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise Raise(ValueError(f"shape {shape!r} or NumPy type number {npy_type} is not usable")) from None
    if any(dim < 0 for dim in dims):
        raise Raise(ValueError(f"shape {shape!r} holds a negative dim"))
    size = math.prod(dims) * dtype.itemsize
    if size == 0:
        return numpy.empty(dims, dtype)
    memory = process().memory
    try:
        memory.reach(ptr, size, False)
    except ShortRead as short:
        raise memory.lost(ptr, size) from short
    return memory.view(ptr, dims, dtype)


_BY_NUMBER = dict(
    enumerate(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "i8", "u8", "f4", "f8", "g", "F", "D", "G"])
) | {23: "f2"}


def bytes_to_ptr(data: bytes) -> int:
    address = id(data) + _BYTES_HEADER
    process().memory.pins.add_bytes(address, data)
    return address


def ptr_to_bytes(ptr: int, size: int) -> bytes:
    return process().memory.read(ptr, size) if size else b""


def start_thread(fn: Callable[..., Any], args: Any) -> int:
    return threads.start(fn, args)


def stop_thread(tid: int) -> None:
    failure = threads.stop(tid)
    if failure is not None:
        raise Raise(RuntimeError(f"exception={type(failure).__name__},msg=thread call failed;"))
