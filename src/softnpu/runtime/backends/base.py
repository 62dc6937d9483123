"""The interface of a device kind. A backend moves bytes and runs queues; it knows nothing of ACL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softnpu.runtime.streams.queue import Queue


class Backend(ABC):
    """What the runtime needs of a kind of device. Addresses are ints; sizes are bytes."""

    kind = "?"

    @abstractmethod
    def reserve(self, size: int) -> int:
        """Address space of `size` bytes, aligned to `arena.CHUNK`, usable at once; raises MemoryError."""

    @abstractmethod
    def decommit(self, address: int, size: int) -> None:
        """Give the pages back but keep the addresses valid: late reads of freed memory must not crash."""

    @abstractmethod
    def copy(self, dst: int, src: int, size: int) -> None:
        """Copy bytes between any two addresses that this backend can reach; blocks."""

    @abstractmethod
    def copy_2d(self, dst: int, dst_pitch: int, src: int, src_pitch: int, width: int, height: int) -> None:
        """Copy `height` rows of `width` bytes; blocks."""

    @abstractmethod
    def fill(self, address: int, value: int, size: int) -> None:
        """Set bytes; blocks."""

    @abstractmethod
    def make_queue(self, name: str) -> Queue:
        """An ordered queue that runs tasks beside other queues."""

    def share(self, address: int, size: int) -> int:
        """Make mapped memory shareable in place and return a file descriptor for it."""
        raise NotImplementedError(f"backend {self.kind} needs share")

    def map_shared(self, descriptor: int, offset: int, size: int) -> int:
        """Map memory of a descriptor from `share`; returns its address."""
        raise NotImplementedError(f"backend {self.kind} needs map_shared")

    def unmap(self, address: int, size: int) -> None:
        """Undo `map_shared`."""
        raise NotImplementedError(f"backend {self.kind} needs unmap")

    def make_physical(self, size: int) -> int:
        """Memory without an address: a descriptor for `map_at`."""
        raise NotImplementedError(f"backend {self.kind} needs make_physical")

    def map_at(self, address: int, size: int, descriptor: int) -> None:
        """Put physical memory under reserved addresses."""
        raise NotImplementedError(f"backend {self.kind} needs map_at")

    def unmap_at(self, address: int, size: int) -> None:
        """Take physical memory away; the addresses stay reserved and read as zero."""
        raise NotImplementedError(f"backend {self.kind} needs unmap_at")
