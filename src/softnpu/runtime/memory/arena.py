"""Arenas: who gives memory out and takes it back, in the address space of one owner."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import deque

from softnpu.runtime.backends.base import Backend
from softnpu.runtime.memory.atlas import (
    CHUNK,
    CHUNK_SHIFT,
    SIZE_CLASSES,
    SLAB_LIMIT,
    Allocation,
    Atlas,
    Run,
    Slab,
    SlabPool,
)
from softnpu.runtime.memory.free_runs import FreeRuns

_SEGMENT = 4 << 30
_QUARANTINE = 64
_QUARANTINE_RUNS = 8
_QUARANTINE_CHUNKS = 32
_WARM_BYTES = 256 << 20
_GRAVE_RECORDS = 1 << 16


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
        size_class = bisect_left(SIZE_CLASSES, padded)
        while SIZE_CLASSES[size_class] % align:
            size_class += 1
        pool = self._pools[SIZE_CLASSES[size_class]]
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
        if isinstance(block, Slab) and any(allocation is not None and allocation.live for allocation in block.slots):
            dead = [index for index, allocation in enumerate(block.slots) if allocation is None or not allocation.live]
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
