"""The arena: no two allocations share a byte, every address finds its allocation, freed addresses stay readable."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import random
import sys
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from softnpu.runtime.backends.host import HostBackend
from softnpu.runtime.memory import arena as arena_module
from softnpu.runtime.memory import atlas as atlas_module
from softnpu.runtime.memory import free_runs as free_runs_module
from softnpu.runtime.memory.arena import Arena
from softnpu.runtime.memory.atlas import CHUNK, SIZE_CLASSES, SLAB_LIMIT, Allocation, Atlas
from softnpu.runtime.memory.free_runs import FreeRuns

MIB = 1 << 20


class Watched(HostBackend):
    """The host backend, remembering what it gave and took; `limit` bytes are all that the machine has."""

    def __init__(self, limit: int = 1 << 40) -> None:
        self.limit = limit
        self.reserved: list[tuple[int, int]] = []
        self.decommitted = 0
        self.interrupt: Callable[[], None] | None = None

    def reserve(self, size: int) -> int:
        self._interrupted()
        if size > self.limit:
            raise MemoryError(f"{size} bytes are too many")
        base = super().reserve(size)
        self.reserved.append((base, size))
        return base

    def decommit(self, address: int, size: int) -> None:
        self._interrupted()
        self.decommitted += size
        super().decommit(address, size)

    def _interrupted(self) -> None:
        """What a garbage collection would do at the worst moment."""
        if self.interrupt is not None:
            work, self.interrupt = self.interrupt, None
            work()


@pytest.fixture
def backend() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    for base, size in watched.reserved:
        watched.unmap(base, size)


@pytest.fixture
def arena(backend: Watched) -> Arena:
    return Arena(Atlas(), backend, "device 0")


def make(arena: Arena, padded: int, align: int = 64) -> Allocation:
    allocation = Allocation(padded, "device", None, None)
    arena.allocate(allocation, padded, align)
    return allocation


def fill(allocation: Allocation, value: int) -> None:
    ctypes.memset(allocation.address, value, allocation.end - allocation.address)


def content(allocation: Allocation) -> bytes:
    return ctypes.string_at(allocation.address, allocation.end - allocation.address)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


# ---- sizes and places ------------------------------------------------------------------------------------------------


def test_size_classes_are_aligned_and_waste_at_most_a_third_or_63_bytes() -> None:
    assert sorted(set(SIZE_CLASSES)) == SIZE_CLASSES
    assert SIZE_CLASSES[-1] == SLAB_LIMIT
    assert all(size % 64 == 0 for size in SIZE_CLASSES)
    for padded in range(32, SLAB_LIMIT, 37):
        slot = SIZE_CLASSES[bisect_left(SIZE_CLASSES, padded)]
        assert slot - padded <= max(63, slot // 4)


@pytest.mark.parametrize("align", [64, 128])
def test_every_start_is_aligned(arena: Arena, align: int) -> None:
    for padded in [*range(32, 3000, 32), 65_536, SLAB_LIMIT - 32, SLAB_LIMIT, SLAB_LIMIT + 32, CHUNK, 3 * CHUNK + 32]:
        for _ in range(3):
            allocation = make(arena, padded, align)
            assert allocation.address % align == 0
            assert allocation.end == allocation.address + padded


def test_addresses_at_the_edges_find_their_allocation_and_no_other(arena: Arena) -> None:
    for padded in (64, 96, 320, 4128, SLAB_LIMIT, SLAB_LIMIT + 64, 5 * MIB):
        first, second = make(arena, padded), make(arena, padded)
        for allocation in (first, second):
            assert arena.atlas.find(allocation.address) is allocation
            assert arena.atlas.find(allocation.address + padded // 2) is allocation
            assert arena.atlas.find(allocation.end - 1) is allocation
            assert arena.atlas.find(allocation.address - 1) is not allocation
        assert arena.atlas.find(first.end) is not second or first.end == second.address


def test_addresses_far_away_find_nothing(arena: Arena) -> None:
    allocation = make(arena, 64)
    low, high, owner = arena.atlas.segments[0]
    for address in (0, 1, low - 1, high, 1 << 47, (1 << 64) - 1):
        assert arena.atlas.find(address) is None
    assert arena.atlas.segment_of(allocation.address) == owner == "device 0"
    assert arena.atlas.segment_of(low) == arena.atlas.segment_of(high - 1) == owner
    assert arena.atlas.segment_of(low - 1) is None
    assert arena.atlas.segment_of(high) is None
    assert arena.atlas.outside(low - 100, 1 << 40) == arena.atlas.outside(low - 100, 101) == 100
    assert arena.atlas.outside(low - 100, 100) == 100
    assert arena.atlas.outside(high, 1 << 40) == 1 << 40
    assert arena.atlas.outside(low, 1) is None and arena.atlas.outside(high - 1, 10) is None


def test_a_random_life_agrees_with_a_simple_model(arena: Arena) -> None:
    chance = random.Random(2024)
    sizes = [32, 64, 96, 200 * 32, 4096, 40_000, 300_000, SLAB_LIMIT, SLAB_LIMIT + 32, 2 * CHUNK, 7 * MIB]
    weights = [30, 30, 20, 10, 8, 6, 4, 2, 2, 2, 1]
    live: dict[int, Allocation] = {}
    starts: list[int] = []
    for step in range(30_000):
        if live and chance.random() < (0.6 if step > 15_000 else 0.4):
            address = starts[chance.randrange(len(starts))]
            allocation = live.pop(address)
            starts.remove(address)
            arena.release(allocation)
            assert not allocation.live
        else:
            allocation = make(arena, chance.choices(sizes, weights)[0], chance.choice((64, 64, 128)))
            position = bisect_right(starts, allocation.address)
            before = live[starts[position - 1]] if position else None
            after = live[starts[position]] if position < len(starts) else None
            assert before is None or before.end <= allocation.address
            assert after is None or allocation.end <= after.address
            live[allocation.address] = allocation
            insort(starts, allocation.address)
        probe = chance.choice(starts) if starts else 0
        if probe:
            inside = probe + chance.randrange(live[probe].end - probe)
            assert arena.atlas.find(inside) is live[probe]
    for allocation in live.values():
        arena.release(allocation)
    assert all(arena.atlas.find(address) is not None for address in live)  # stale pointers can still be explained


def test_a_freed_slot_rests_before_it_is_used_again(arena: Arena) -> None:
    freed = make(arena, 64)
    arena.release(freed)
    others = [make(arena, 64) for _ in range(64)]
    assert freed.address not in {other.address for other in others}
    assert arena.atlas.find(freed.address) is freed


def test_a_freed_run_rests_too(arena: Arena, backend: Watched) -> None:
    freed = make(arena, 3 * MIB)
    arena.release(freed)
    for _ in range(7):
        other = make(arena, 3 * MIB)
        assert other.address != freed.address
        arena.release(other)
    assert arena.atlas.find(freed.address) is freed
    starts = set()
    for _ in range(1000):
        other = make(arena, 3 * MIB)
        starts.add(other.address)
        arena.release(other)
    assert len(starts) < 20
    whole = make(arena, (4 << 30) - 64)  # what rests is woken before more address space is taken
    assert len(backend.reserved) == 1
    arena.release(whole)


def test_freed_slots_are_used_again_in_the_end(arena: Arena, backend: Watched) -> None:
    for _ in range(200_000):
        arena.release(make(arena, 64))
    assert sum(1 for chunk in arena.atlas.chunks.values() if chunk is not None) == 1
    assert len(backend.reserved) == 1


# ---- freed memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [64, 4128, SLAB_LIMIT, 3 * MIB])
def test_freed_memory_stays_mapped_and_its_record_findable(arena: Arena, padded: int) -> None:
    allocation = make(arena, padded)
    fill(allocation, 0x5A)
    arena.release(allocation)
    assert content(allocation) == bytes([0x5A]) * padded
    freed = arena.atlas.find(allocation.address + padded - 1)
    assert freed is allocation and not freed.live


def test_the_record_of_a_retired_slab_is_still_there(arena: Arena) -> None:
    allocations = [make(arena, SLAB_LIMIT) for _ in range(9)]
    for allocation in allocations:
        arena.release(allocation)
    for allocation in allocations:
        freed = arena.atlas.find(allocation.address)
        assert freed is not None and freed.size == SLAB_LIMIT and not freed.live


def test_records_of_retired_slabs_do_not_pile_up(arena: Arena) -> None:
    for _ in range(4):
        allocations = [make(arena, 64) for _ in range(5 * CHUNK // 64)]
        for allocation in allocations:
            arena.release(allocation)
    kept = sum(len(getattr(chunk, "slots", ())) for chunk in arena.atlas.chunks.values())
    assert kept <= 4 * CHUNK // 64


def test_runs_are_joined_when_they_are_freed(arena: Arena, backend: Watched) -> None:
    whole = 1 << 30
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)):
        parts = [make(arena, whole) for _ in range(4)]
        for index in order:
            arena.release(parts[index])
    large = make(arena, 4 * whole)
    assert len(backend.reserved) == 1
    arena.release(large)


def test_the_pages_of_large_and_many_freed_blocks_go_back_to_the_machine(arena: Arena) -> None:
    for count, padded in ((1, 160 * MIB), (500, MIB)):
        before = resident()
        blocks = [make(arena, padded) for _ in range(count)]
        for block in blocks:
            fill(block, 1)
        assert resident() - before > 150 * MIB
        for block in blocks:
            arena.release(block)
        assert ctypes.string_at(blocks[0].address, 64) in (bytes(64), b"\1" * 64)
    arena.trim()
    assert resident() - before < 32 * MIB
    assert content(blocks[0]) == bytes(MIB)


def test_trim_leaves_what_lives(arena: Arena, backend: Watched) -> None:
    blocks = [make(arena, padded) for padded in (64, 64, 4096, SLAB_LIMIT, 3 * MIB, 3 * MIB)]
    for index, block in enumerate(blocks):
        fill(block, index + 1)
    for block in blocks[::2]:
        arena.release(block)
    arena.trim()
    assert backend.decommitted > 0
    for index, block in enumerate(blocks):
        if index % 2:
            assert content(block) == bytes([index + 1]) * (block.end - block.address)
            arena.release(block)
    arena.trim()
    again = make(arena, 64)
    assert arena.atlas.find(again.address) is again


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_a_machine_with_little_address_space_is_asked_for_less(backend: Watched, arena: Arena) -> None:
    backend.limit = 64 * MIB
    allocation = make(arena, 3 * MIB)
    fill(allocation, 7)
    assert len(backend.reserved) == 1 and backend.reserved[0][1] <= 64 * MIB


def test_no_memory_is_an_error_and_changes_nothing(backend: Watched, arena: Arena) -> None:
    backend.limit = 64 * MIB
    with pytest.raises(MemoryError):
        make(arena, 65 * MIB)
    backend.limit = 0
    with pytest.raises(MemoryError):
        make(arena, 64)
    assert not arena.atlas.segments
    backend.limit = 1 << 40
    assert arena.atlas.find(make(arena, 64).address) is not None


# ---- free stretches --------------------------------------------------------------------------------------------------


def test_free_stretches_agree_with_a_set_of_chunks() -> None:
    chance = random.Random(7)
    runs, free = FreeRuns(), set(range(100, 400))
    runs.add(100, 300)
    taken: list[tuple[int, int]] = []
    for _ in range(5000):
        if taken and chance.random() < 0.5:
            start, length = taken.pop(chance.randrange(len(taken)))
            runs.add(start, length)
            free |= set(range(start, start + length))
            continue
        length = chance.randrange(1, 12)
        start = runs.take(length) or 0
        longest = longest_stretch(free)
        assert bool(start) == (longest >= length)
        if start:
            assert set(range(start, start + length)) <= free
            free -= set(range(start, start + length))
            taken.append((start, length))
    stretches = runs.all()
    assert sum(length for _, length in stretches) == len(free)
    assert all(start + length not in free and start - 1 not in free for start, length in stretches)


def longest_stretch(free: set[int]) -> int:
    best = run = 0
    for number in range(100, 401):
        run = run + 1 if number in free else 0
        best = max(best, run)
    return best


# ---- threads and destructors -----------------------------------------------------------------------------------------


def test_many_threads_never_share_a_byte(arena: Arena) -> None:
    problems: list[str] = []

    def life(mark: int) -> None:
        chance = random.Random(mark)
        mine: list[Allocation] = []
        for _ in range(1500):
            if len(mine) > 40 or (mine and chance.random() < 0.4):
                allocation = mine.pop(chance.randrange(len(mine)))
                if content(allocation) != bytes([mark]) * (allocation.end - allocation.address):
                    problems.append(f"bytes of thread {mark} were changed")
                arena.release(allocation)
            else:
                allocation = make(arena, chance.choice((64, 96, 2080, 20_000, 3 * MIB // 2)))
                fill(allocation, mark)
                mine.append(allocation)
        for allocation in mine:
            arena.release(allocation)

    threads = [threading.Thread(target=life, args=(mark,)) for mark in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert problems == []
    large = make(arena, 3 << 30)  # everything was joined again: the first segment has room for it
    assert len(arena.atlas.segments) == 1
    arena.release(large)


@pytest.mark.parametrize("padded", [64, SLAB_LIMIT, 3 * MIB])
def test_a_destructor_that_frees_in_the_middle_of_an_allocation(arena: Arena, backend: Watched, padded: int) -> None:
    first, second = make(arena, padded), make(arena, 3 * MIB)

    def destructor() -> None:
        arena.release(first)
        arena.release(second)

    backend.interrupt = destructor
    third = make(arena, 5 << 30)  # needs a new segment, whose reservation is interrupted
    assert not first.live and not second.live
    fill_edges(third)
    fourth = make(arena, 3 * MIB)
    assert fourth.end <= third.address or third.end <= fourth.address


def test_a_destructor_that_allocates_in_the_middle_of_an_allocation(arena: Arena, backend: Watched) -> None:
    inner: list[Allocation] = []
    backend.interrupt = lambda: inner.extend(make(arena, padded) for padded in (64, 3 * MIB))
    outer = [make(arena, 64)]
    backend.interrupt = lambda: inner.append(make(arena, 96))
    outer.append(make(arena, 5 << 30))
    assert len(inner) == 3
    check_apart(arena, [*inner, *outer])
    for allocation in [*inner, *outer]:
        arena.release(allocation)
        assert not allocation.live


def fill_edges(allocation: Allocation) -> None:
    ctypes.memset(allocation.address, 1, 64)
    ctypes.memset(allocation.end - 64, 1, 64)


FILES = {module.__file__ for module in (arena_module, atlas_module, free_runs_module)}


class Interrupter:
    """Calls `destructor` before the n-th line that the arena runs, as a garbage collection may."""

    def __init__(self, line: int, destructor: Callable[[], None]) -> None:
        self.left, self.destructor, self.done = line, destructor, False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Interrupter | None:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0 and not self.done:
                self.done = True
                sys.settrace(None)
                self.destructor()
        return self


@pytest.mark.parametrize("padded", [64, SLAB_LIMIT, 2 * MIB])
def test_a_destructor_may_come_between_any_two_lines(backend: Watched, padded: int) -> None:
    for line in range(200):
        arena = Arena(Atlas(), backend, "device 0")
        owned = [make(arena, size) for size in (64, SLAB_LIMIT, SLAB_LIMIT, SLAB_LIMIT, 2 * MIB, 2 * MIB, 2 * MIB) * 2]
        for allocation in owned[4:11]:
            arena.release(allocation)  # resting slots, empty slabs and free stretches to stumble over
        owned = [allocation for allocation in owned if allocation.live]
        born: list[Allocation] = []

        def destructor(arena: Arena = arena, owned: list[Allocation] = owned, born: list[Allocation] = born) -> None:
            for allocation in owned:
                arena.release(allocation)
            born.extend(make(arena, size) for size in (64, SLAB_LIMIT, 2 * MIB))

        interrupter = Interrupter(line, destructor)
        sys.settrace(interrupter)
        try:
            first = make(arena, padded)
            second = make(arena, padded)
            arena.release(first)
        finally:
            sys.settrace(None)
        live = [*born, second, make(arena, padded), make(arena, SLAB_LIMIT)]
        check_apart(arena, live)
        if not interrupter.done:
            return
    raise AssertionError("the lines never ended")


def check_apart(arena: Arena, live: list[Allocation]) -> None:
    spans = sorted((allocation.address, allocation.end) for allocation in live)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert all(arena.atlas.find(allocation.address) is allocation and allocation.live for allocation in live)


class Owner:
    """Garbage in a cycle that holds memory."""

    def __init__(self, arena: Arena, padded: int) -> None:
        self.arena, self.allocation, self.me = arena, make(arena, padded), self

    def __del__(self) -> None:
        self.arena.release(self.allocation)
        if self.allocation.size == 96:
            self.arena.release(make(self.arena, 160))


def test_garbage_collections_at_every_step_free_memory_safely(arena: Arena) -> None:
    thresholds = gc.get_threshold()
    chance = random.Random(11)
    kept: list[Allocation] = []
    gc.set_threshold(1, 1, 1)
    try:
        for step in range(600):
            Owner(arena, chance.choice((64, 96, 96, SLAB_LIMIT, 2 * MIB)))
            allocation = make(arena, chance.choice((64, 160, SLAB_LIMIT, 2 * MIB)))
            fill_edges(allocation)
            if step % 3:
                arena.release(allocation)
            else:
                kept.append(allocation)
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    check_apart(arena, kept)


# ---- sharing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [4128, 5 * MIB])
def test_sharing_keeps_the_content_and_ends_with_the_memory(arena: Arena, backend: Watched, padded: int) -> None:
    allocation = make(arena, padded)
    fill(allocation, 0x11)
    chunks = arena.share(allocation)
    assert [address % CHUNK for address, _ in chunks] == [0] * len(chunks)
    assert content(allocation) == b"\x11" * padded
    assert arena.share(allocation) == chunks
    last, descriptor = chunks[-1]
    copy = os.dup(descriptor)
    other = backend.map_shared(copy, 0, CHUNK)
    end = allocation.end - 1
    ctypes.memset(other + end - last, 0x22, 1)
    assert content(allocation)[-1] == 0x22
    arena.release(allocation)
    arena.trim()
    again = [make(arena, padded) for _ in range(3)]
    for allocation in again:
        fill(allocation, 0x33)
    assert ctypes.string_at(other + end - last, 1) == b"\x22"
    backend.unmap(other, CHUNK)
    os.close(copy)
