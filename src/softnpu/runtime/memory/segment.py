"""Memory that several processes map. It has no name: it is gone when the last of them is, however they ended."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from typing import Any

import numpy as np

PAGE = mmap.ALLOCATIONGRANULARITY


def create(size: int, label: str = "softnpu") -> int:
    """A file descriptor of new, zeroed memory; pages cost nothing until they are written."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(label)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


class Window:
    """A mapped part of a segment: `array` is its bytes. Arrays made from it keep the mapping alive."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self.size = size
        self.buffer = mmap.mmap(fd, size, offset=offset)
        self.array: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(self.buffer, np.uint8)

    def close(self) -> None:
        """Unmap, unless something still looks at it: then it goes with the last of that."""
        del self.array
        with contextlib.suppress(BufferError):
            self.buffer.close()

    def give_back(self, offset: int, size: int) -> None:
        """Return the pages of a range to the system; they read as zero afterwards."""
        first = -(-offset // PAGE) * PAGE
        length = (offset + size) // PAGE * PAGE - first
        if length > 0 and hasattr(mmap, "MADV_REMOVE"):
            with contextlib.suppress(OSError):  # an old kernel or another file system: the pages stay, nothing is wrong
                self.buffer.madvise(mmap.MADV_REMOVE, first, length)
