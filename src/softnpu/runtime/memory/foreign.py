"""Memory that we did not allocate: bytes objects, arrays, ctypes buffers, and addresses that are no memory at all.

Pointers of this kind are legal (the manuals hand the memory of `bytes` objects to every copy), so they cannot be
refused; but a wrong one must become an error code and not a segmentation fault. The kernel is asked: `madvise` with
MADV_POPULATE_READ/WRITE fails where memory is unmapped or not permitted, and costs one system call. Kernels before
5.14 do not know it; there /proc/self/maps is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import sys
import threading
import weakref
from collections import OrderedDict
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_madvise = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_msync = _libc.msync
_msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_POPULATE_READ, _POPULATE_WRITE = 22, 23
_MS_ASYNC = 1
_PAGE = mmap.PAGESIZE
_TOP = 1 << 56  # no user address on any 64-bit Linux lies higher
_CAUTIOUS = 1 << 20
_PIN_OBJECTS = 64
_PIN_BYTES = 64 << 20
_MAIN_BELOW, _STACK_BELOW, _STACK_ABOVE = 4 << 10, 256 << 10, 8 << 10
_INSIDE_LIMIT = 256  # looking for the object around an address is linear; beyond this it is not worth it
_probe = ctypes.create_string_buffer(1)


def _maps() -> list[tuple[int, int, str, str]]:
    rows = []
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        for line in file:
            span, rights, _, _, _, *name = line.split(maxsplit=5)
            low, _, high = span.partition("-")
            rows.append((int(low, 16), int(high, 16), rights, name[0] if name else ""))
    return rows


def _prefix_by_maps(address: int, size: int, write: bool) -> int:
    at, end = address, address + size
    for low, high, rights, name in _maps():
        if low <= at < high:
            if rights[0] != "r" or (write and rights[1] != "w") or name.startswith("[v"):
                break  # [vvar] and [vsyscall] are listed as readable, but not all of their pages are
            at = high
            if at >= end:
                return size
        elif low > at:
            break
    return at - address


def _refused(start: int, length: int, write: bool) -> int:
    """Let the kernel touch whole pages: 0, or the error number."""
    if _madvise(start, length, _POPULATE_WRITE if write else _POPULATE_READ) == 0:
        return 0
    return ctypes.get_errno()


def _prefix_by_kernel(address: int, size: int, write: bool) -> int:
    """The same question where all is mapped and permitted: pages beyond the end of a mapped file still fault."""
    start = address & -_PAGE
    pages = (address + size - start + _PAGE - 1) // _PAGE
    if not _refused(start, pages * _PAGE, write):
        return size
    good, bad = 0, pages
    while bad - good > 1:
        middle = (good + bad) // 2
        if _refused(start, middle * _PAGE, write):
            bad = middle
        else:
            good = middle
    return max(0, start + good * _PAGE - address)


def usable_prefix(address: int, size: int, write: bool) -> int:
    """How many of `size` bytes from `address` on can be read (or written) without a fault."""
    if size <= 0 or address <= 0 or address >= _TOP:
        return 0
    size = min(size, _TOP - address)
    start = address & -_PAGE
    length = (address + size - start + _PAGE - 1) & -_PAGE
    # A hole is looked for before anything is populated: a doomed request must not fill the machine's memory first.
    hole = length > _CAUTIOUS and _msync(start, length, _MS_ASYNC) != 0
    problem = errno.ENOMEM if hole else _refused(start, length, write)
    if not problem:
        return size
    if length == _PAGE and problem in (errno.ENOMEM, errno.EFAULT):
        return 0  # one page, and it is not there: no need to read the maps
    size = _prefix_by_maps(address, size, write)
    if size and not _refused(ctypes.addressof(_probe) & -_PAGE, _PAGE, False):
        size = _prefix_by_kernel(address, size, write)
    return size


def writable(address: int, size: int) -> bool:
    """Whether memory that can be read can be written too; asked without touching it."""
    return _prefix_by_maps(address, size, True) >= size


def thread_of(address: int, size: int) -> int | None:
    """The Python thread whose control block or busy stack a range touches: a thread id is an address, but no memory to write."""
    main = threading.main_thread().ident
    for ident in sys._current_frames():
        below = _MAIN_BELOW if ident == main else _STACK_BELOW
        if address < ident + _STACK_ABOVE and ident - below < address + size:
            return ident
    return None


class Pins:
    """Host objects whose address was handed out by `acl.util`, so that the usual next call needs no system call.

    Programs write `bytes_to_ptr(array.tobytes())` and drop the temporary at once: the newest few bytes objects are kept
    alive here. Arrays are watched through weak references only; a large array is not kept alive by us. Single operations
    are atomic under the GIL, so there is no lock that a destructor could meet.
    """

    def __init__(self) -> None:
        self._bytes: OrderedDict[int, bytes] = OrderedDict()
        self._held = 0
        self._arrays: dict[int, tuple[int, bool, weakref.ref[Any]]] = {}

    def add_bytes(self, address: int, data: bytes) -> None:
        """Keep a bytes object alive for a while and know its range."""
        size = len(data)
        if size > _PIN_BYTES:
            return
        pinned = self._bytes
        if address in pinned:
            with contextlib.suppress(KeyError):  # another thread dropped it just now
                pinned.move_to_end(address)
                return
        pinned[address] = data
        self._held += size
        while len(pinned) > _PIN_OBJECTS or self._held > _PIN_BYTES:
            try:
                _, dropped = pinned.popitem(last=False)
            except KeyError:
                break
            size = len(dropped)
            self._held -= size

    def add_array(self, address: int, array: Any) -> None:
        """Know the memory of a contiguous array for as long as the array lives (a weak reference forbids its resize)."""
        owner = array if array.base is None else array.base
        # Memory that NumPy did not allocate (a mapped file) may vanish or be read-only: the kernel is asked each time.
        if not array.flags.forc or not getattr(getattr(owner, "flags", None), "owndata", False):
            return
        room = array.nbytes if owner is array else owner.__array_interface__["data"][0] + owner.nbytes - address
        known = self._arrays
        reference = weakref.ref(owner, lambda gone: _forget(known, address, gone))
        known[address] = (room, array.flags.writeable, reference)

    def room(self, address: int, write: bool) -> int | None:
        """Bytes from an address to the end of the known living object it lies in; None when it lies in none."""
        room = self._room_of(address, write)
        return room if room is not None else self._room_inside(address, write)

    def _room_of(self, start: int, write: bool) -> int | None:
        data = self._bytes.get(start)
        if data is not None:
            return len(data)
        entry = self._arrays.get(start)
        if entry is None or (write and not entry[1]) or entry[2]() is None:
            return None
        return entry[0]

    def _room_inside(self, address: int, write: bool) -> int | None:
        """The same for a pointer with an offset: programs add to what `*_to_ptr` gave them."""
        if len(self._arrays) > _INSIDE_LIMIT:
            return None
        before = [start for start in (*self._bytes.copy(), *self._arrays.copy()) if start < address]
        start = max(before, default=0)
        room = self._room_of(start, write) if start else None
        return start + room - address if room is not None and start + room > address else None


def _forget(known: dict[int, tuple[int, bool, weakref.ref[Any]]], address: int, gone: Any) -> None:
    entry = known.get(address)
    if entry is not None and entry[2] is gone:
        known.pop(address, None)
