"""The address book: where allocations lie, and which allocation an address belongs to.

Address space is taken from a backend in segments and cut in chunks of 2 MiB (a huge page). A chunk is either a slab of
equal slots for small allocations or part of a run of chunks for a large one. `Atlas.chunks` maps chunk numbers to them, so
finding the allocation of any address is one dictionary look-up and one division, however many allocations live.
Freed addresses stay mapped: a late read through an old view gives old bytes, never a crash.
"""

from __future__ import annotations

from collections import deque
from typing import Any

CHUNK_SHIFT = 21
CHUNK = 1 << CHUNK_SHIFT
SLAB_LIMIT = CHUNK // 2


class Allocation:
    """A live or freed piece of memory. `size` is what was asked for, `end` includes the padding of the manual."""

    __slots__ = ("address", "block", "device", "end", "kind", "live", "note", "origin", "size", "window")

    def __init__(self, size: int, kind: str, device: Any, origin: str | None) -> None:
        self.address = 0
        self.size = size
        self.end = 0
        self.kind = kind
        self.device = device
        self.live = True
        self.origin = origin
        self.block: Any = None
        self.note = ""
        self.window: Any = None  # its bytes as an array, once somebody asked for them

    def describe(self) -> str:
        """The allocation in words: kind, size, place, and where it was made when that is known."""
        home = f" of device {self.device.index}" if self.device is not None else ""
        origin = f", made at {self.origin}" if self.origin else ""
        return f"the {self.size}-byte {self.kind} allocation at {self.address:#x}{home}{origin}"


def _size_classes() -> list[int]:
    sizes = [64, 128, 192]
    base = 256
    while base < SLAB_LIMIT:
        sizes += [base, base + base // 4, base + base // 2, base + 3 * base // 4]
        base *= 2
    return [*sizes, SLAB_LIMIT]


SIZE_CLASSES = _size_classes()


class Slab:
    """A chunk of equal slots."""

    __slots__ = ("base", "free", "fresh", "live", "pool", "slot", "slots")

    def __init__(self, base: int, slot: int, pool: SlabPool) -> None:
        self.base = base
        self.slot = slot
        self.slots: list[Allocation | None] = [None] * (CHUNK // slot)
        self.fresh = 0
        self.live = 0
        self.free: deque[int] = deque()
        self.pool = pool

    def at(self, address: int) -> Allocation | None:
        """The allocation whose slot holds the address, live or freed."""
        slots = self.slots
        index = (address - self.base) // self.slot
        return slots[index] if index < len(slots) else None


class Run:
    """Neighbouring chunks that hold one allocation."""

    __slots__ = ("allocation", "base", "chunks")

    def __init__(self, base: int, chunks: int, allocation: Allocation) -> None:
        self.base = base
        self.chunks = chunks
        self.allocation = allocation

    def at(self, address: int) -> Allocation | None:
        """The allocation of this run; memory of another process need not begin with the first chunk."""
        allocation = self.allocation
        return allocation if address >= allocation.address else None


class SlabPool:
    """All slabs of one slot size. Freed slots rest for a while before they are used again, so that stale pointers show."""

    __slots__ = ("current", "partial", "resting", "slabs", "slot")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.partial: dict[Slab, None] = {}  # slabs with freed slots, oldest first
        self.resting = 0
        self.current: Slab | None = None
        self.slabs = 0

    def reuse(self) -> tuple[Slab, int]:
        """The longest-freed slot of the oldest slab that has one."""
        slab = next(iter(self.partial))
        index = slab.free.popleft()
        self.resting -= 1
        if not slab.free:
            del self.partial[slab]
        return slab, index


class Atlas:
    """Chunk number → slab or run, for all arenas of the process."""

    def __init__(self) -> None:
        self.chunks: dict[int, Slab | Run] = {}
        self.segments: list[tuple[int, int, str]] = []

    def find(self, address: int) -> Allocation | None:
        """The allocation, live or freed, to which an address belongs."""
        chunk = self.chunks.get(address >> CHUNK_SHIFT)
        return chunk.at(address) if chunk is not None else None

    def segment_of(self, address: int) -> str | None:
        """Whose address space an address lies in, allocated or not."""
        return next((owner for low, high, owner in self.segments if low <= address < high), None)

    def outside(self, address: int, size: int) -> int | None:
        """How many of `size` bytes from an address on lie before our address space; None when the address is in it."""
        for low, high, _ in self.segments:
            if low <= address < high:
                return None
            if address < low < address + size:
                size = low - address
        return size
