"""Where segments come from: allocators of the program's own (a C library), and pools that keep their segments apart."""

from __future__ import annotations

import ctypes
import itertools
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import connection
from torch_npu._runtime import stream_ids as ids
from torch_npu.npu import alloc_conf
from torch_npu.npu.utils import known_index


class _Library:
    """Two functions of a C library: alloc(size, device, stream) and free(ptr, size, device, stream)."""

    def __init__(self, path: str, alloc_name: str, free_name: str) -> None:
        library = ctypes.CDLL(path)
        self.alloc: Any = getattr(library, alloc_name)
        self.alloc.restype = ctypes.c_void_p
        self.alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free: Any = getattr(library, free_name)
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]


class _Segments:
    """Stands between the caching allocator and the devices where a library gives memory."""

    def __init__(self) -> None:
        self.default: _Library | None = None
        self.of_pool: dict[int, _Library] = {}
        self.owners: dict[int, _Library] = {}  # by address

    def install(self) -> None:
        """From now on segments pass here. Those made before go back the way they came."""
        if connection.segment_source != (self.allocate, self.release):
            connection.segment_source = self.allocate, self.release
            connection.connect()

    def allocate(self, device: int, size: int, stream: int) -> int:
        """The address of a new segment, 0 when there is no memory."""
        library = self.of_pool.get(ids.pool_of(stream), self.default)
        if library is None:
            return connection._allocate(device, size)
        address = library.alloc(size, device, ids.plain(stream)) or 0
        if address:
            self.owners[address] = library
        return address

    def release(self, device: int, address: int, size: int, stream: int) -> None:
        """Give a segment back to where it came from."""
        library = self.owners.pop(address, None)
        if library is None:
            connection._release(device, address)
        else:
            library.free(address, size, device, ids.plain(stream))


segments = _Segments()


class NPUPluggableAllocator:
    """An allocator from a library (path, name of its alloc, name of its free).

    For `change_current_allocator` it gives the memory of each tensor; for a MemPool, the segments of that pool. A free function
    without the device argument is called with it all the same; C ignores what comes after.
    """

    def __init__(self, path_to_so_file: str | os.PathLike[str], alloc_fn_name: str, free_fn_name: str) -> None:
        try:
            self._allocator = _Library(os.fspath(path_to_so_file), alloc_fn_name, free_fn_name)
        except (OSError, AttributeError) as error:
            raise RuntimeError(
                f"cannot take {alloc_fn_name!r} and {free_fn_name!r} from {path_to_so_file}: {error}"
                + pta_error(ErrCode.NOT_FOUND)
            ) from error

    def allocator(self) -> _Library:
        """What MemPool takes."""
        return self._allocator


def _is_used() -> bool:
    """Whether the allocator has made a segment, ever: sums may have been reset, segments given back."""
    return any(_C._memory_stats(index)["segment"]["all"]["peak"] for index in range(_C._get_device_count()))


def change_current_allocator(allocator: NPUPluggableAllocator) -> None:
    """Take each block from a library and give it back when its tensor goes: nothing is cached. Only once and before the first
    allocation, since blocks cannot move."""
    if segments.default is not None or _is_used():
        raise RuntimeError(
            "Can't swap an already initialized allocator: call change_current_allocator once, before the first npu tensor"
            + pta_error(ErrCode.INTERNAL)
        )
    segments.default = allocator.allocator()
    segments.install()
    alloc_conf.stop_caching()


def get_allocator_backend() -> str:
    """ "native", or "pluggable" after `change_current_allocator`."""
    return "native" if segments.default is None else "pluggable"


def _end_pool(number: int) -> None:
    """Give back what is free in a pool that nobody can name any more; what tensors hold goes with the next `empty_cache`."""
    _C._forget_pool(number)
    _C._empty_cache(number)
    segments.of_pool.pop(number, None)


class MemPool:
    """Memory with segments of its own, inside `use_mem_pool`.

    What is free in them goes back with `empty_cache` and with the pool. `no_split`: a block is a whole segment. `use_on_oom`: other
    allocations may take free blocks of the pool before they fail.
    """

    _numbers = itertools.count(1)

    def __init__(
        self,
        allocator: _Library | NPUPluggableAllocator | None = None,
        use_on_oom: bool = False,
        no_split: bool = False,
    ) -> None:
        self._number = next(self._numbers)
        self._users = 0
        self._allocator = allocator.allocator() if isinstance(allocator, NPUPluggableAllocator) else allocator
        _C._set_pool_flags(self._number, no_split, use_on_oom)
        if self._allocator is not None:
            segments.of_pool[self._number] = self._allocator
            segments.install()
        weakref.finalize(self, _end_pool, self._number).atexit = False

    @property
    def id(self) -> tuple[int, int]:
        """The number of the pool; (0, 0) is the common one."""
        return 0, self._number

    @property
    def allocator(self) -> _Library | None:
        """The library that its memory comes from."""
        return self._allocator

    def use_count(self) -> int:
        """1, and 1 more for each `use_mem_pool` that is open."""
        return 1 + self._users

    def snapshot(self) -> list[dict[str, Any]]:
        """Its segments, as in `memory_snapshot`."""
        return _C._memory_snapshot(self._number, False)[0]


@contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Allocations of this thread on a device come from the pool inside the `with` block."""
    index = known_index(device)
    here = _C._get_device()
    before = ids.current_id(index)
    ids.make_current(index, before, pool._number)
    _C._set_device(here)
    pool._users += 1
    try:
        yield
    finally:
        pool._users -= 1
        now, here = ids.current_id(index), _C._get_device()
        ids.make_current(index, now, ids.pool_of(before))
        _C._set_device(here)
