"""The host backend: device memory is this process's memory, a queue is a worker thread."""

from __future__ import annotations

import ctypes
import mmap
import os

from softnpu.runtime.backends.base import Backend
from softnpu.runtime.streams.queue import Queue

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_madvise = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_MAP_FAILED = ctypes.c_void_p(-1).value
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_MADV_DONTNEED = 4
_MADV_HUGEPAGE = 14
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
_ALIGN = 1 << 21
_FEW_ROWS = 4


def _map(address: int, size: int, flags: int, descriptor: int = -1, offset: int = 0) -> int:
    got = _mmap(address or None, size, _READ_WRITE, flags, descriptor, offset)
    if got is None or got == _MAP_FAILED:
        raise MemoryError(f"mapping {size} bytes failed: {os.strerror(ctypes.get_errno())}")
    return int(got)


class _Rectangle:
    """Rows of bytes at a distance, as NumPy's array interface."""

    def __init__(self, address: int, pitch: int, width: int, height: int) -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": (height, width), "strides": (pitch, 1), "typestr": "|u1", "version": 3,
        }  # fmt: skip


class HostBackend(Backend):
    """Memory from anonymous mappings; copies and fills are libc's, without the GIL."""

    kind = "host"
    copy = staticmethod(ctypes.memmove)  # type: ignore[assignment]
    fill = staticmethod(ctypes.memset)  # type: ignore[assignment]

    def reserve(self, size: int) -> int:
        raw = _map(0, size + _ALIGN, _PRIVATE)
        start = (raw + _ALIGN - 1) & -_ALIGN
        if start > raw:
            _munmap(raw, start - raw)
        if tail := raw + _ALIGN - start:
            _munmap(start + size, tail)
        _madvise(start, size, _MADV_HUGEPAGE)  # advice only: a refusal costs speed, nothing else
        return start

    def decommit(self, address: int, size: int) -> None:
        _madvise(address, size, _MADV_DONTNEED)  # refused for locked memory: then it stays in use, nothing else

    def copy_2d(self, dst: int, dst_pitch: int, src: int, src_pitch: int, width: int, height: int) -> None:
        if dst_pitch == src_pitch == width:
            ctypes.memmove(dst, src, width * height)
            return
        if height > _FEW_ROWS:
            import numpy

            target, source = _Rectangle(dst, dst_pitch, width, height), _Rectangle(src, src_pitch, width, height)
            numpy.copyto(numpy.asarray(target), numpy.asarray(source))
            return
        for row in range(height):
            ctypes.memmove(dst + row * dst_pitch, src + row * src_pitch, width)

    def make_queue(self, name: str) -> Queue:
        return Queue(name)

    def share(self, address: int, size: int) -> int:
        descriptor = self.make_physical(size)
        try:
            copy = self.map_shared(descriptor, 0, size)
            ctypes.memmove(copy, address, size)
            _munmap(copy, size)
            self.map_at(address, size, descriptor)
        except MemoryError:
            os.close(descriptor)
            raise
        return descriptor

    def map_shared(self, descriptor: int, offset: int, size: int) -> int:
        return _map(0, size, mmap.MAP_SHARED, descriptor, offset)

    def unmap(self, address: int, size: int) -> None:
        _munmap(address, size)

    def make_physical(self, size: int) -> int:
        try:
            descriptor = os.memfd_create("softnpu", os.MFD_CLOEXEC)
        except OSError as error:
            raise MemoryError(f"no shared memory: {error}") from error
        try:
            os.ftruncate(descriptor, size)
        except (OSError, OverflowError) as error:
            os.close(descriptor)
            raise MemoryError(f"no shared memory of {size} bytes: {error}") from error
        return descriptor

    def map_at(self, address: int, size: int, descriptor: int) -> None:
        _map(address, size, mmap.MAP_SHARED | _MAP_FIXED, descriptor)

    def unmap_at(self, address: int, size: int) -> None:
        _map(address, size, _PRIVATE | _MAP_FIXED)
