"""The address book: where allocations lie, and which allocation an address belongs to.

Address space is taken from a backend in segments and cut in chunks of 2 MiB (a huge page). A chunk is either a slab of
equal slots for small allocations or part of a run of chunks for a large one. `Atlas.chunks` maps chunk numbers to them, so
finding the allocation of any address is one dictionary look-up and one division, however many allocations live.
Freed addresses stay mapped: a late read through an old view gives old bytes, never a crash.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, insort
from collections import deque
from typing import Any

from softnpu.runtime.backends.base import Backend

CHUNK_SHIFT = 21
CHUNK = 1 << CHUNK_SHIFT
SLAB_LIMIT = CHUNK // 2
_SEGMENT = 4 << 30
_QUARANTINE = 64
_QUARANTINE_RUNS = 8
_QUARANTINE_CHUNKS = 32
_WARM_BYTES = 256 << 20
_GRAVE_RECORDS = 1 << 16


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


class FreeRuns:
    """Free stretches of chunks, found by length (best fit) and joined with their neighbours."""

    def __init__(self) -> None:
        self._lengths: list[int] = []
        self._starts: dict[int, dict[int, None]] = {}
        self._by_start: dict[int, int] = {}
        self._by_end: dict[int, int] = {}

    def add(self, start: int, length: int) -> None:
        """Give a stretch back."""
        before = self._by_end.get(start)
        if before is not None:
            length += self._drop(before)
            start = before
        if start + length in self._by_start:
            length += self._drop(start + length)
        self._by_start[start] = length
        self._by_end[start + length] = start
        if length not in self._starts:
            self._starts[length] = {}
            insort(self._lengths, length)
        self._starts[length][start] = None

    def take(self, length: int) -> int | None:
        """The start of a stretch of at least this length, cut to it; None when there is none."""
        place = bisect_left(self._lengths, length)
        if place == len(self._lengths):
            return None
        start = next(iter(self._starts[self._lengths[place]]))
        whole = self._drop(start)
        if whole > length:
            self.add(start + length, whole - length)
        return start

    def all(self) -> list[tuple[int, int]]:
        """Every free stretch as (start, length)."""
        return list(self._by_start.items())

    def _drop(self, start: int) -> int:
        length = self._by_start.pop(start)
        del self._by_end[start + length]
        starts = self._starts[length]
        del starts[start]
        if not starts:
            del self._starts[length]
            del self._lengths[bisect_left(self._lengths, length)]
        return length


class Arena:
    """Allocates from the address space of one owner (a device, or the host side).

    The lock is re-entrant because a garbage collection inside a locked part may run destructors, and those may free and
    allocate. What they free while the lists are in our hands is put back when we are done; what they allocate gets
    address space of its own.
    """

    def __init__(self, atlas: Atlas, backend: Backend, owner: str) -> None:
        self.atlas = atlas
        self.backend = backend
        self.owner = owner
        self.lock = threading.RLock()
        self._pools = {slot: SlabPool(slot) for slot in SIZE_CLASSES}
        self._runs = FreeRuns()
        self._resting: deque[tuple[int, int]] = deque()  # freed stretches, which rest as freed slots do
        self._resting_chunks = 0
        self._warm = 0
        self._shared: dict[int, int] = {}
        self.torn = False  # an operation was cut short by an exception from outside; `repair` before the next one
        self._inside = False
        self._late: deque[Allocation] = deque()
        self._graves: deque[Slab] = deque()
        self._grave_records = 0

    def allocate(self, allocation: Allocation, padded: int, align: int) -> None:
        """Place an allocation; sets its address and end. Raises MemoryError."""
        with self.lock:
            if self._inside:
                self._allocate_apart(allocation, padded)
            else:
                self._inside = True
                try:
                    if padded <= SLAB_LIMIT:
                        self._allocate_slot(allocation, padded, align)
                    else:
                        self._allocate_run(allocation, padded)
                finally:
                    self._inside = False
                    if self._late:
                        self._settle()
            allocation.end = allocation.address + padded

    def _allocate_slot(self, allocation: Allocation, padded: int, align: int) -> None:
        place = bisect_left(SIZE_CLASSES, padded)
        while SIZE_CLASSES[place] % align:
            place += 1
        pool = self._pools[SIZE_CLASSES[place]]
        slab = pool.current
        full = slab is None or slab.fresh >= len(slab.slots)
        if pool.resting > _QUARANTINE or (full and pool.resting):
            slab, index = pool.reuse()
        else:
            if slab is None or full:
                slab = self._new_slab(pool)
            index = slab.fresh
            slab.fresh += 1
        slab.live += 1
        allocation.block = slab
        allocation.address = slab.base + index * slab.slot
        slab.slots[index] = allocation

    def _new_slab(self, pool: SlabPool) -> Slab:
        slab = Slab(self._take_chunks(1) << CHUNK_SHIFT, pool.slot, pool)
        self.atlas.chunks[slab.base >> CHUNK_SHIFT] = slab
        pool.current = slab
        pool.slabs += 1
        return slab

    def _allocate_run(self, allocation: Allocation, padded: int) -> None:
        count = (padded + CHUNK - 1) >> CHUNK_SHIFT
        self._place_run(allocation, self._take_chunks(count), count)

    def _allocate_apart(self, allocation: Allocation, padded: int) -> None:
        count = (padded + CHUNK - 1) >> CHUNK_SHIFT
        self._place_run(allocation, self._reserve(count << CHUNK_SHIFT) >> CHUNK_SHIFT, count)

    def _place_run(self, allocation: Allocation, first: int, count: int) -> None:
        run = Run(first << CHUNK_SHIFT, count, allocation)
        allocation.address = run.base
        allocation.block = run
        chunks = self.atlas.chunks
        for number in range(first, first + count):
            chunks[number] = run

    def _take_chunks(self, count: int) -> int:
        first = self._runs.take(count)
        if first is None and self._resting:
            self._wake(0, 0)
            first = self._runs.take(count)
        if first is None:
            self._grow(count)
            first = self._runs.take(count)
            assert first is not None
        self._warm = max(0, self._warm - count * CHUNK)
        return first

    def _grow(self, count: int) -> None:
        size = max(_SEGMENT, count << CHUNK_SHIFT)
        while True:
            try:
                base = self._reserve(size)
                break
            except MemoryError:
                if size == count << CHUNK_SHIFT:
                    raise
                size = max(size // 4 & -CHUNK, count << CHUNK_SHIFT)
        self._runs.add(base >> CHUNK_SHIFT, size >> CHUNK_SHIFT)

    def _reserve(self, size: int) -> int:
        base = self.backend.reserve(size)
        self.atlas.segments.append((base, base + size, self.owner))
        return base

    def release(self, allocation: Allocation) -> None:
        """Free an allocation; its addresses stay mapped and its record stays findable until they are used again."""
        with self.lock:
            allocation.live = False
            if self._inside:
                self._late.append(allocation)
                return
            self._inside = True
            try:
                self._put_back(allocation)
            finally:
                self._inside = False
                if self._late:
                    self._settle()

    def _settle(self) -> None:
        """Put back what destructors freed while the lists were in our hands."""
        while self._late:
            self._inside = True
            try:
                self._put_back(self._late.popleft())
            finally:
                self._inside = False

    def _put_back(self, allocation: Allocation) -> None:
        block = allocation.block
        if isinstance(block, Slab):
            self._release_slot(block, allocation)
        else:
            self._release_chunks(block.base >> CHUNK_SHIFT, block.chunks)

    def _release_slot(self, slab: Slab, allocation: Allocation) -> None:
        slab.live -= 1
        pool = slab.pool
        if slab.live == 0 and slab is not pool.current:
            self._retire(slab)
            return
        slab.free.append((allocation.address - slab.base) // slab.slot)
        pool.resting += 1
        pool.partial[slab] = None

    def _retire(self, slab: Slab) -> None:
        """Give the chunk of an empty slab back; the records of the last few stay, to name what a stale pointer was."""
        pool = slab.pool
        pool.partial.pop(slab, None)
        pool.resting -= len(slab.free)
        pool.slabs -= 1
        slab.free = deque()
        self._release_chunks(slab.base >> CHUNK_SHIFT, 1)
        self._graves.append(slab)
        self._grave_records += len(slab.slots)
        while self._grave_records > _GRAVE_RECORDS:
            oldest = self._graves.popleft()
            self._grave_records -= len(oldest.slots)
            oldest.slots = []

    def repair(self) -> None:
        """Make the lists anew from the address book: what lives there stays, everything else is free."""
        with self.lock:
            self._pools = {slot: SlabPool(slot) for slot in SIZE_CLASSES}
            self._runs = FreeRuns()
            self._resting, self._resting_chunks = deque(), 0
            self._late, self._graves, self._grave_records = deque(), deque(), 0
            self._inside = False
            spans = [
                (low >> CHUNK_SHIFT, high >> CHUNK_SHIFT)
                for low, high, owner in self.atlas.segments
                if owner == self.owner
            ]
            for low, high in spans:
                number = low
                while number < high:
                    number += self._keep_or_free(number)
            self.torn = False

    def _keep_or_free(self, number: int) -> int:
        """Book one chunk, or the run that begins there; how many chunks that was."""
        block = self.atlas.chunks.get(number)
        if isinstance(block, Run) and block.allocation.live and block.base == number << CHUNK_SHIFT:
            return block.chunks
        if isinstance(block, Slab) and any(one is not None and one.live for one in block.slots):
            dead = [index for index, one in enumerate(block.slots) if one is None or not one.live]
            block.fresh, block.live, block.free = len(block.slots), len(block.slots) - len(dead), deque(dead)
            pool = block.pool = self._pools[block.slot]
            pool.slabs += 1
            if dead:
                pool.partial[block] = None
                pool.resting += len(dead)
            return 1
        self._runs.add(number, 1)
        return 1

    def trim(self) -> None:
        """Give all memory that nothing lives in back to the machine; addresses stay valid."""
        with self.lock:
            if self._inside:
                return
            self._inside = True
            try:
                for pool in self._pools.values():
                    slab = pool.current
                    if slab is not None and slab.live == 0:
                        pool.current = None
                        self._retire(slab)
                self._wake(0, 0)
                for first, count in self._runs.all():
                    self.backend.decommit(first << CHUNK_SHIFT, count << CHUNK_SHIFT)
                self._warm = 0
            finally:
                self._inside = False
                self._settle()

    def _release_chunks(self, first: int, count: int) -> None:
        for number in range(first, first + count) if self._shared else ():
            if (descriptor := self._shared.pop(number, None)) is not None:
                self.backend.unmap_at(number << CHUNK_SHIFT, CHUNK)
                os.close(descriptor)
        self._warm += count * CHUNK
        if self._warm > _WARM_BYTES or count * CHUNK > _WARM_BYTES // 2:
            self.backend.decommit(first << CHUNK_SHIFT, count << CHUNK_SHIFT)
            self._warm -= count * CHUNK
        self._resting.append((first, count))
        self._resting_chunks += count
        self._wake(_QUARANTINE_RUNS, _QUARANTINE_CHUNKS)

    def _wake(self, runs: int, chunks: int) -> None:
        """Make the longest-freed stretches usable again until at most so many rest."""
        while len(self._resting) > runs or self._resting_chunks > chunks:
            first, count = self._resting.popleft()
            self._resting_chunks -= count
            self._runs.add(first, count)

    def share(self, allocation: Allocation) -> list[tuple[int, int]]:
        """Make the chunks of an allocation shareable; (chunk address, descriptor) of each, in order."""
        with self.lock:
            first = allocation.address >> CHUNK_SHIFT
            last = (allocation.end - 1) >> CHUNK_SHIFT
            for number in range(first, last + 1):
                if number not in self._shared:
                    self._shared[number] = self.backend.share(number << CHUNK_SHIFT, CHUNK)
            return [(number << CHUNK_SHIFT, self._shared[number]) for number in range(first, last + 1)]
