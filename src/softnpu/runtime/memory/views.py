"""From addresses to bytes: reading, writing, and arrays over memory."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from softnpu.base.dtypes import numpy_name
from softnpu.runtime.memory.foreign import writable
from softnpu.runtime.memory.reach import Addresses, ShortRead


class Views:
    """Bytes under addresses that were checked."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses

    def read(self, address: int, size: int) -> bytes:
        """A copy of bytes at an address."""
        self._addresses.reach(address, size, False)
        return _bytes_at(address, size)

    def snapshot(self, address: int, size: int) -> bytes:
        """The same, of the part that exists where a foreign source is short."""
        try:
            return self.read(address, size)
        except ShortRead as short:
            return _bytes_at(address, short.usable)

    def store(self, address: int, data: bytes) -> None:
        """Write bytes to an address."""
        self._addresses.reach(address, len(data), True)
        ctypes.memmove(address, data, len(data))

    def array(self, address: int, size: int, data_type: int) -> Any:
        """A NumPy view of memory, typed by an aclDataType (bfloat16 as its bits)."""
        import numpy

        dtype = numpy.dtype(numpy_name(data_type) or numpy.uint16)
        return self.view(address, (size // dtype.itemsize,), dtype)

    def view(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """A NumPy array over memory, writable where the memory is; it owns nothing and copies nothing."""
        import numpy

        size = math.prod(shape) * dtype.itemsize
        ours = (
            self._addresses.reach(address, size, False) is not None
            or self._addresses.pins.room(address, True) is not None
        )
        return numpy.asarray(_Interface(address, shape, dtype.str, not (ours or writable(address, size))))

    def window(self, address: int, size: int, write: bool) -> tuple[Any, int]:
        """Bytes as an array that holds them, and where in it they begin: quick for memory of ours that is used again and again."""
        allocation = self._addresses.reach(address, size, write)
        if allocation is None:
            return self.view(address, (size,), _BYTES), 0
        if allocation.window is None:
            length = allocation.end - allocation.address
            allocation.window = self.view(
                allocation.address, (length if not self._addresses.strict else allocation.size,), _BYTES
            )
        return allocation.window, address - allocation.address


class _Bytes:
    """What `view` needs to know of a type, without loading NumPy for it."""

    itemsize = 1
    str = "|u1"


_BYTES = _Bytes()


class _Interface:
    """An address as NumPy's array interface."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str, read_only: bool) -> None:
        self.__array_interface__ = {"data": (address, read_only), "shape": shape, "typestr": typestr, "version": 3}


def _bytes_at(address: int, size: int) -> bytes:
    if size < 1 << 31:
        return ctypes.string_at(address, size)
    return (ctypes.c_char * size).from_address(address).raw  # string_at takes a C int
