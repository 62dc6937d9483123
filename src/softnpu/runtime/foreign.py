"""Memory that we did not allocate: bytes objects, arrays, ctypes buffers, and addresses that are no memory at all.

Pointers of this kind are legal (the manuals hand the memory of `bytes` objects to every copy), so they cannot be
refused; but a wrong one must become an error code and not a segmentation fault. The kernel is asked: `madvise` with
MADV_POPULATE_READ/WRITE fails where memory is unmapped or not permitted, and costs one system call. Kernels before
5.14 do not know it; there /proc/self/maps is read.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import weakref
from collections import deque
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_madvise = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_POPULATE_READ, _POPULATE_WRITE = 22, 23
_PAGE = mmap.PAGESIZE
_TOP = 1 << 47
_PIN_OBJECTS = 64
_PIN_BYTES = 64 << 20


def _maps() -> list[tuple[int, int, str]]:
    rows = []
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        for line in file:
            span, rights = line.split(" ", 2)[:2]
            low, _, high = span.partition("-")
            rows.append((int(low, 16), int(high, 16), rights))
    return rows


def _prefix_by_maps(address: int, size: int, write: bool) -> int:
    at, end = address, address + size
    for low, high, rights in _maps():
        if low <= at < high:
            if rights[0] != "r" or (write and rights[1] != "w"):
                break
            at = high
            if at >= end:
                return size
        elif low > at:
            break
    return at - address


def usable_prefix(address: int, size: int, write: bool) -> int:
    """How many of `size` bytes from `address` on can be read (or written) without a fault."""
    if size <= 0 or address <= 0 or address >= _TOP:
        return 0
    size = min(size, _TOP - address)
    start = address & -_PAGE
    length = (address + size - start + _PAGE - 1) & -_PAGE
    if _madvise(start, length, _POPULATE_WRITE if write else _POPULATE_READ) == 0:
        return size
    if ctypes.get_errno() in (errno.ENOMEM, errno.EFAULT) and size <= _PAGE - address % _PAGE:
        return 0  # one page, and it is not there: no need to read the maps
    return _prefix_by_maps(address, size, write)


class Pins:
    """Host objects whose address was handed out by `acl.util`, so that the usual next call needs no system call.

    Programs write `bytes_to_ptr(array.tobytes())` and drop the temporary at once: the newest few bytes objects are kept
    alive here. Arrays are watched through weak references only; a large array is not kept alive by us.
    """

    def __init__(self) -> None:
        self._bytes: deque[tuple[int, bytes]] = deque()
        self._held = 0
        self._known: dict[int, tuple[int, Any]] = {}

    def add_bytes(self, address: int, data: bytes) -> None:
        """Keep a bytes object alive for a while and know its range."""
        if len(data) > _PIN_BYTES:
            return
        self._bytes.append((address, data))
        self._held += len(data)
        self._known[address] = (len(data), None)
        while self._bytes and (len(self._bytes) > _PIN_OBJECTS or self._held > _PIN_BYTES):
            try:
                old, dropped = self._bytes.popleft()
            except IndexError:  # another thread took the last one
                break
            self._held -= len(dropped)
            if not any(one == old for one, _ in tuple(self._bytes)):
                self._known.pop(old, None)

    def add_array(self, address: int, size: int, array: Any) -> None:
        """Know the range of an array for as long as it lives."""
        known = self._known
        reference = weakref.ref(array, lambda gone: _forget(known, address, gone))
        known[address] = (size, reference)

    def covers(self, address: int, size: int) -> bool:
        """Whether the range lies in an object that is known to be alive."""
        entry = self._known.get(address)
        return entry is not None and size <= entry[0] and (entry[1] is None or entry[1]() is not None)


def _forget(known: dict[int, tuple[int, Any]], address: int, gone: Any) -> None:
    entry = known.get(address)
    if entry is not None and entry[1] is gone:
        known.pop(address, None)
