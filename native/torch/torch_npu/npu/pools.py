"""Where segments come from: allocators of the program's own (a C library), and pools that keep their segments apart."""

from __future__ import annotations

import ctypes
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch_npu import _C, _start
from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu import _stream_ids as ids
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
    """Stands between the caching allocator and the devices: chooses the source of a segment, tells who listens."""

    def __init__(self) -> None:
        self.default: _Library | None = None
        self.of_pool: dict[int, _Library] = {}
        self.owners: dict[int, tuple[_Library, int, int]] = {}  # address → library, size, stream
        self.listener: Callable[[str, int, int, int, int], None] | None = None  # action, device, address, size, stream
        self.sizes: dict[int, tuple[int, int]] = {}  # address → size, stream; while somebody listens
        self.installed = False

    def install(self) -> None:
        """From now on segments pass here. Those made before go back the way they came."""
        if self.installed:
            return
        self._allocate, self._release = _start._allocate, _start._release
        _start._allocate, _start._release = self.allocate, self.release
        _start.connect()
        self.installed = True

    def allocate(self, device: int, size: int) -> int:
        """The address of a new segment, 0 when there is no memory."""
        stream = ids.current_id(device)
        library = self.of_pool.get(ids.pool_of(stream), self.default)
        number = ids.plain(stream)
        address = (library.alloc(size, device, number) or 0) if library else self._allocate(device, size)
        if address and library:
            self.owners[address] = library, size, number
        if address and self.listener is not None:
            self.sizes[address] = size, number
            self.listener("segment_alloc", device, address, size, number)
        return address

    def release(self, device: int, address: int) -> None:
        """Give a segment back to where it came from."""
        size, stream = self.sizes.pop(address, (0, 0))
        if self.listener is not None:
            self.listener("segment_free", device, address, size, stream)
        owner = self.owners.pop(address, None)
        if owner is None:
            self._release(device, address)
        else:
            owner[0].free(address, owner[1], device, owner[2])


segments = _Segments()


class NPUPluggableAllocator:
    """An allocator from a library (path, name of its alloc, name of its free).

    It gives the segments of the caching allocator, not each tensor: the library is called seldom and in larger sizes. A free
    function without the device argument is called with it all the same; C ignores what comes after.
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


def change_current_allocator(allocator: NPUPluggableAllocator) -> None:
    """Take all memory from a library. Only before the first allocation, since blocks cannot move."""
    if any(_C._memory_stats(index)["num_device_alloc"] for index in range(_C._get_device_count())):
        raise RuntimeError(
            "Can't swap an already initialized allocator: call change_current_allocator before the first npu tensor"
            + pta_error(ErrCode.INTERNAL)
        )
    segments.default = allocator.allocator()
    segments.install()


def get_allocator_backend() -> str:
    """ "native", or "pluggable" after `change_current_allocator`."""
    return "native" if segments.default is None else "pluggable"


class MemPool:
    """Memory with segments of its own, inside `use_mem_pool`. What is free in them goes back with `empty_cache`."""

    _numbers = itertools.count(1)

    def __init__(
        self,
        allocator: _Library | NPUPluggableAllocator | None = None,
        use_on_oom: bool = False,
        no_split: bool = False,
    ) -> None:
        for name, value in (("use_on_oom", use_on_oom), ("no_split", no_split)):
            if value:
                warnings.warn(f"MemPool({name}=True) has no effect on this device", stacklevel=2)
        self._number = next(self._numbers)
        self._users = 0
        self._allocator = allocator.allocator() if isinstance(allocator, NPUPluggableAllocator) else allocator
        if self._allocator is not None:
            segments.of_pool[self._number] = self._allocator
            segments.install()

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
        from torch_npu.npu.memory_trace import memory_snapshot  # it stands on this module

        return memory_snapshot(self.id)


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
