"""The host backend: address space, copies without the GIL, and memory under several addresses."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Iterator

import numpy
import pytest

from softnpu.runtime.backends.base import Backend
from softnpu.runtime.backends.host import HostBackend
from softnpu.runtime.memory.atlas import CHUNK

SIZE = 4 * CHUNK


@pytest.fixture
def backend() -> HostBackend:
    return HostBackend()


@pytest.fixture
def base(backend: HostBackend) -> Iterator[int]:
    address = backend.reserve(SIZE)
    yield address
    backend.unmap(address, SIZE)


def view(address: int, size: int) -> numpy.ndarray:
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def test_reserved_space_is_aligned_zero_and_usable_to_its_last_byte(backend: HostBackend, base: int) -> None:
    assert base % CHUNK == 0
    memory = view(base, SIZE)
    assert not memory.any()
    memory[-1] = memory[0] = 7
    assert ctypes.string_at(base + SIZE - 1, 1) == b"\7"


def test_reservations_do_not_overlap(backend: HostBackend) -> None:
    spans = sorted((backend.reserve(size), size) for size in (CHUNK, 3 * CHUNK, 1 << 30, CHUNK, 2 * CHUNK))
    assert all(start + size <= following for (start, size), (following, _) in itertools.pairwise(spans))
    for start, size in spans:
        backend.unmap(start, size)


def test_more_address_space_than_there_is_is_a_memory_error(backend: HostBackend) -> None:
    with pytest.raises(MemoryError, match="failed"):
        backend.reserve(1 << 60)


def test_decommitted_memory_reads_as_zero_and_can_be_used_again(backend: HostBackend, base: int) -> None:
    memory = view(base, SIZE)
    memory[:] = 5
    backend.decommit(base + CHUNK, CHUNK)
    assert memory[:CHUNK].all() and memory[2 * CHUNK :].all()
    assert not memory[CHUNK : 2 * CHUNK].any()
    memory[CHUNK : 2 * CHUNK] = 6
    assert int(memory[CHUNK]) == 6


def test_decommitting_what_cannot_be_given_back_is_harmless(backend: HostBackend, base: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    if libc.mlock(base, 4096):
        pytest.skip("this user may lock no memory")
    view(base, 1)[0] = 3
    backend.decommit(base, CHUNK)
    assert int(view(base, 1)[0]) == 3


def test_copies_and_fills_are_those_of_numpy(backend: HostBackend, base: int) -> None:
    chance = numpy.random.default_rng(1)
    expected = chance.integers(0, 256, SIZE, dtype=numpy.uint8)
    view(base, SIZE)[:] = expected
    for _ in range(200):
        count = int(chance.integers(1, 5000))
        target, source = (int(offset) for offset in chance.integers(0, SIZE - count, 2))
        if chance.random() < 0.5:  # neighbours, so that they overlap
            source = max(0, min(SIZE - count, target + int(chance.integers(-count, count))))
        backend.copy(base + target, base + source, count)
        expected[target : target + count] = expected[source : source + count].copy()
        at = int(chance.integers(0, SIZE - count))
        backend.fill(base + at, count % 256, count)
        expected[at : at + count] = count % 256
    assert numpy.array_equal(view(base, SIZE), expected)


@pytest.mark.parametrize(
    ("width", "height", "target_pitch", "source_pitch"),
    [
        (1, 1, 1, 1),
        (7, 3, 9, 7),
        (64, 4, 64, 64),
        (64, 5, 100, 64),
        (3, 5000, 4, 17),
        (1000, 100, 1000, 1001),
        (5, 1, 99, 5),
    ],
)
def test_rectangles_are_those_of_numpy(
    backend: HostBackend, base: int, width: int, height: int, target_pitch: int, source_pitch: int
) -> None:
    memory = view(base, SIZE)
    memory[:] = numpy.random.default_rng(2).integers(0, 256, SIZE, dtype=numpy.uint8)
    expected = memory.copy()
    target, source = 100, SIZE // 2 + 13
    for row in range(height):
        start, origin = target + row * target_pitch, source + row * source_pitch
        expected[start : start + width] = expected[origin : origin + width]
    backend.copy_2d(base + target, target_pitch, base + source, source_pitch, width, height)
    assert numpy.array_equal(memory, expected)


def test_a_copy_leaves_the_interpreter_to_others(backend: HostBackend) -> None:
    size = 64 << 20
    base = backend.reserve(2 * size)
    view(base, 2 * size)[::4096] = 1
    gate, ran = threading.Lock(), []
    gate.acquire()
    thread = threading.Thread(target=lambda: gate.acquire() and ran.append(True))
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # from here on the other thread runs only while a copy lets it
    try:
        gate.release()
        for _ in range(100):
            backend.copy(base, base + size, size)
            if ran:
                break
        in_time = bool(ran)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert in_time
    backend.unmap(base, 2 * size)


def test_shared_memory_keeps_its_content_and_is_seen_from_both_sides(backend: HostBackend, base: int) -> None:
    memory = view(base, SIZE)
    memory[:] = 9
    descriptor = backend.share(base + CHUNK, CHUNK)
    other = backend.map_shared(descriptor, 0, CHUNK)
    assert (memory == 9).all() and (view(other, CHUNK) == 9).all()
    memory[CHUNK + 5] = 1
    view(other, CHUNK)[6] = 2
    assert int(view(other, CHUNK)[5]) == 1 and int(memory[CHUNK + 6]) == 2
    backend.unmap_at(base + CHUNK, CHUNK)
    assert not memory[CHUNK : 2 * CHUNK].any() and memory[:CHUNK].all()
    memory[CHUNK + 5] = 77
    assert int(view(other, CHUNK)[5]) == 1
    backend.unmap(other, CHUNK)
    os.close(descriptor)


def test_one_physical_block_at_two_addresses(backend: HostBackend, base: int) -> None:
    descriptor = backend.make_physical(CHUNK)
    assert os.fstat(descriptor).st_size == CHUNK
    assert not os.get_inheritable(descriptor)
    backend.map_at(base, CHUNK, descriptor)
    backend.map_at(base + 2 * CHUNK, CHUNK, descriptor)
    view(base, 1)[0] = 42
    assert int(view(base + 2 * CHUNK, 1)[0]) == 42
    backend.unmap_at(base, CHUNK)
    assert int(view(base, 1)[0]) == 0
    assert int(view(base + 2 * CHUNK, 1)[0]) == 42
    os.close(descriptor)


def test_a_failed_share_closes_its_descriptor(backend: HostBackend, base: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: int) -> int:
        raise MemoryError("no more maps")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(backend, "map_at", refuse)
    view(base, 1)[0] = 4
    with pytest.raises(MemoryError):
        backend.share(base, CHUNK)
    assert len(os.listdir("/proc/self/fd")) == before
    assert int(view(base, 1)[0]) == 4


def test_more_physical_memory_than_a_file_can_have_is_a_memory_error(backend: HostBackend) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(MemoryError):
        backend.make_physical(1 << 63)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_backend_says_what_it_lacks() -> None:
    class Bare(HostBackend):
        kind = "bare"

    bare = Bare()
    for call in (
        lambda: Backend.share(bare, 0, 0),
        lambda: Backend.map_shared(bare, 0, 0, 0),
        lambda: Backend.unmap(bare, 0, 0),
        lambda: Backend.make_physical(bare, 0),
        lambda: Backend.map_at(bare, 0, 0, 0),
        lambda: Backend.unmap_at(bare, 0, 0),
    ):
        with pytest.raises(NotImplementedError, match="bare"):
            call()
    with pytest.raises(TypeError, match="abstract"):
        Backend()  # type: ignore[abstract]


def test_queues_run_beside_each_other_and_in_order(backend: HostBackend) -> None:
    first, second = backend.make_queue("one"), backend.make_queue("two")
    gate, order = threading.Event(), []
    first.submit(lambda: bool(gate.wait(20)) and order.append("one"))
    second.submit(lambda: order.append("two"))
    assert second.synchronize(20)
    assert order == ["two"]
    gate.set()
    assert first.synchronize(20)
    assert order == ["two", "one"]
    first.close()
    second.close()
