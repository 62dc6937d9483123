"""acl.rt: copies, fills, words and reductions, at once and in stream order."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import acl
from softnpu.runtime.process import process
from tests.support import WAIT, Hold, in_thread, message, ok

H2H, H2D, D2H, D2D, DEFAULT, H2B = range(6)
MIB = 1 << 20
PAGE = mmap.PAGESIZE
ROUND_THE_EDGES = [1, 2, 31, 63, 64, 65, 1000, 4096, 128 << 10, (128 << 10) + 1, MIB + 3]
_libc = ctypes.CDLL(None, use_errno=True)
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


@pytest.fixture(autouse=True)
def _clear() -> None:
    acl.get_recent_err_msg()


def device(size: int) -> int:
    return int(ok(acl.rt.malloc(size, 0)))


def host(size: int) -> int:
    return int(ok(acl.rt.malloc_host(size)))


def noise(size: int, seed: int = 0) -> bytes:
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8).tobytes()


def write(ptr: int, data: bytes) -> int:
    ctypes.memmove(ptr, data, len(data))
    return ptr


def read(ptr: int, size: int) -> bytes:
    return ctypes.string_at(ptr, size)


def map_pages(count: int, rights: int = mmap.PROT_READ | mmap.PROT_WRITE) -> int:
    """Pages of our own, with nothing mapped behind them."""
    address = _libc.mmap(None, (count + 1) * PAGE, rights, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert _libc.munmap(address + count * PAGE, PAGE) == 0
    return int(address)


def unmap_pages(address: int, count: int) -> None:
    assert _libc.munmap(address, count * PAGE) == 0


# ---- memcpy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ROUND_THE_EDGES)
@pytest.mark.parametrize("kind", range(6))
def test_every_kind_copies(runtime: None, kind: int, size: int) -> None:
    data = noise(size)
    source, target = (host(size) if kind in (H2H, H2D, H2B) else device(size)), device(size)
    if kind in (H2H, D2H):
        target = host(size)
    write(source, data)
    assert acl.rt.memcpy(target, size, source, size, kind) == 0
    assert read(target, size) == data
    assert read(source, size) == data


def test_interior_pointers_and_larger_limits(runtime: None) -> None:
    data = noise(1000)
    source, target = write(device(1000), data), device(1000)
    ok(acl.rt.memset(target, 1000, 0, 1000))
    assert acl.rt.memcpy(target + 13, 10_000, source + 500, 400, D2D) == 0
    assert read(target, 1000) == bytes(13) + data[500:900] + bytes(587)


def test_nothing_is_copied_without_complaint(runtime: None) -> None:
    ptr = device(10)
    for dst, dst_max, src, kind in ((ptr, 10, ptr, 1), (0, 0, 0, 99), (1, 0, 1, -5), (ptr, 0, 0, 1)):
        assert acl.rt.memcpy(dst, dst_max, src, 0, kind) == 0
        assert acl.rt.memcpy_async(dst, dst_max, src, 0, kind, 0) == 0


@pytest.mark.parametrize("call", ["memcpy", "memcpy_async", "memcpy_async_with_condition"])
def test_arguments_are_checked(runtime: None, call: str) -> None:
    def copy(*arguments: int) -> int:
        rest = () if call == "memcpy" else (0,)
        return int(getattr(acl.rt, call)(*arguments, *rest))

    one, two = device(100), host(100)
    assert copy(0, 100, two, 100, H2D) == 100000
    assert "destination pointer is null" in message()
    assert copy(one, 100, 0, 100, H2D) == 100000
    assert "source pointer is null" in message()
    for kind in (-1, 6, 7, 8, 1000):
        assert copy(one, 100, two, 100, kind) == 100000
        assert f"copy kind {kind} " in message()
    assert copy(one, 99, two, 100, H2D) == 107000
    assert "100 bytes" in message()
    assert copy(one, 0, two, 1, H2D) == 107000
    assert copy(one, 100, two, -1, H2D) == 107000  # 2^64-1 bytes
    assert in_thread(lambda: copy(one, 100, two, 100, H2D)) == 107002
    ok(acl.rt.synchronize_stream(0))


def test_a_copy_onto_itself_is_nothing(runtime: None) -> None:
    data = noise(100)
    ptr = write(device(100), data)
    assert acl.rt.memcpy(ptr, 100, ptr, 100, D2D) == 0
    assert read(ptr, 100) == data


@pytest.mark.parametrize("shift", [-100, -7, -1, 1, 7, 100])
def test_overlapping_ranges_are_copied_as_if_through_a_buffer(runtime: None, shift: int) -> None:
    data = noise(5000)
    ptr = write(device(5000), data)
    assert acl.rt.memcpy(ptr + 200 + shift, 4000, ptr + 200, 4000, D2D) == 0
    expected = bytearray(data)
    expected[200 + shift : 4200 + shift] = data[200:4200]
    assert read(ptr, 5000) == bytes(expected)


@pytest.mark.parametrize(("said", "real"), list(itertools.product(range(4), ["hh", "hd", "dh", "dd"])))
def test_the_pointers_decide_and_not_the_kind(runtime: None, said: int, real: str) -> None:
    data = noise(256)
    source, target = (host(256) if side == "h" else device(256) for side in real)
    write(source, data)
    assert acl.rt.memcpy(target, 256, source, 256, said) == 0
    assert read(target, 256) == data


# ---- memory of Python objects ----------------------------------------------------------------------------------------


def test_a_bytes_object_is_written_to(runtime: None) -> None:
    data = noise(1000)
    target = bytes(1000)
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(target), 1000, write(device(1000), data), 1000, D2H) == 0
    assert target == data


def test_a_temporary_that_was_dropped_at_once_is_still_there(runtime: None) -> None:
    ptr, array = device(40_000), numpy.arange(10_000, dtype=numpy.int32)
    for _ in range(20):
        address = acl.util.bytes_to_ptr(array.tobytes())
        junk = [bytes([one]) * 40_000 for one in range(3)]
        assert acl.rt.memcpy(ptr, 40_000, address, 40_000, H2D) == 0
        assert read(ptr, 40_000) == array.tobytes()
        assert len(junk) == 3


@pytest.mark.parametrize("length", [0, 1, 10, 100, 5000])
def test_reading_past_the_end_of_a_bytes_object_survives(runtime: None, length: int) -> None:
    data = noise(length)
    ptr = device(4 * MIB)
    assert acl.rt.memcpy(ptr, 4 * MIB, acl.util.bytes_to_ptr(data), 4 * MIB, H2D) == 0
    assert read(ptr, length) == data


@pytest.mark.parametrize("kind", [H2D, H2B])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_reading_past_the_last_page_copies_what_is_there(runtime: None, asynchronous: bool, kind: int) -> None:
    pages = map_pages(2)
    data = noise(100)
    write(pages + 2 * PAGE - 100, data)
    ptr = device(1000)
    ok(acl.rt.memset(ptr, 1000, 0x11, 1000))
    arguments = (ptr, 1000, pages + 2 * PAGE - 100, 1000, kind)
    if asynchronous:
        ok(acl.rt.memcpy_async(*arguments, 0))
        ok(acl.rt.synchronize_stream(0))
    else:
        ok(acl.rt.memcpy(*arguments))
    assert read(ptr, 1000) == data + b"\x11" * 900
    unmap_pages(pages, 2)


def test_writing_past_the_last_page_is_refused(runtime: None) -> None:
    pages, ptr = map_pages(1), device(2 * PAGE)
    assert acl.rt.memcpy(pages, 2 * PAGE, ptr, 2 * PAGE, D2H) == 107000
    assert acl.rt.memset(pages + PAGE - 1, 2, 0, 2) == 107000
    assert acl.rt.memcpy(pages, PAGE, ptr, PAGE, D2H) == 0
    unmap_pages(pages, 1)


def test_read_only_memory_is_a_source_and_no_target(runtime: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(noise(5000))
    mapped = numpy.memmap(tmp_path / "file", numpy.uint8, "r")
    pages, ptr = map_pages(2, mmap.PROT_READ), device(5000)
    for address in (pages, acl.util.numpy_contiguous_to_ptr(mapped)[0]):
        assert acl.rt.memcpy(ptr, 5000, address, 5000, H2D) == 0
        assert acl.rt.memcpy(address, 5000, ptr, 5000, D2H) == 107000
        assert acl.rt.memcpy_async(address, 5000, ptr, 5000, D2H, 0) == 107000
        assert acl.rt.memset(address, 1, 0, 1) == 107000
        assert "can be written" in message()
    assert read(ptr, 5000) == noise(5000)
    unmap_pages(pages, 2)


def test_memory_whose_file_was_cut_short_is_an_error(runtime: None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10 * PAGE))
    mapped = numpy.memmap(path, numpy.uint8, "r+")
    address = acl.util.numpy_contiguous_to_ptr(mapped)[0]
    with path.open("r+b") as file:
        file.truncate(PAGE)
    ptr = device(10 * PAGE)
    assert acl.rt.memcpy(ptr, 10 * PAGE, address + PAGE, PAGE, H2D) == 107000
    assert acl.rt.memcpy(address, 10 * PAGE, ptr, 10 * PAGE, D2H) == 107000
    assert acl.rt.memcpy(ptr, 10 * PAGE, address, 10 * PAGE, H2D) == 0  # the page that is left


def test_foreign_ranges_that_run_into_our_memory_are_cut_there(runtime: None) -> None:
    ptr = device(3 * MIB)
    write(ptr, noise(3 * MIB))
    start = next(low for low, high, _ in process().memory.atlas.segments if low <= ptr < high)
    fixed = _libc.mmap(start - PAGE, PAGE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if fixed != start - PAGE:  # something else lies there
        unmap_pages(fixed, 1)
        pytest.skip("the page before our memory is taken")
    assert acl.rt.memset(fixed, 2 * PAGE, 0, 2 * PAGE) == 107000
    assert read(ptr, 3 * MIB) == noise(3 * MIB)
    assert acl.rt.memset(fixed, PAGE, 0, PAGE) == 0
    unmap_pages(fixed, 1)


# ---- devices ---------------------------------------------------------------------------------------------------------


def test_copies_between_devices_need_peer_access(runtime: None) -> None:
    one, data = device(1000), noise(1000)
    write(one, data)
    ok(acl.rt.set_device(1))
    two = device(1000)
    for source, target in ((one, two), (two, one)):
        for kind in (D2D, DEFAULT):
            assert acl.rt.memcpy(target, 1000, source, 1000, kind) == 107000
            assert "peer access" in message()
        assert acl.rt.memcpy2d(target, 10, source, 10, 10, 100, D2D) == 107000
    ok(acl.rt.device_enable_peer_access(0, 0))
    ok(acl.rt.memcpy(two, 1000, one, 1000, D2D))
    assert read(two, 1000) == data
    ok(acl.rt.memcpy2d(one, 10, two, 10, 10, 100, D2D))
    ok(acl.rt.device_disable_peer_access(0))
    assert acl.rt.memcpy(two, 1000, one, 1000, D2D) == 107000


def test_an_asynchronous_copy_between_devices_fails_at_synchronise(runtime: None) -> None:
    one = device(64)
    ok(acl.rt.set_device(1))
    two = device(64)
    ok(acl.rt.memcpy_async(two, 64, one, 64, D2D, 0))
    assert acl.rt.synchronize_stream(0) == 107000
    assert "peer access" in message()


def test_host_memory_serves_every_device(runtime: None) -> None:
    source, data = host(100), noise(100)
    write(source, data)
    for index in (0, 1):
        ok(acl.rt.set_device(index))
        ptr = device(100)
        ok(acl.rt.memcpy(ptr, 100, source, 100, H2D))
        assert read(ptr, 100) == data


# ---- rectangles ------------------------------------------------------------------------------------------------------


def random_rectangles() -> Iterator[tuple[int, int, int, int, int]]:
    chance = random.Random(5)
    for _ in range(40):
        width, height = chance.choice([1, 3, 16, 100, 1000]), chance.choice([1, 2, 5, 50, 300])
        yield (
            width,
            height,
            width + chance.choice([0, 1, 28, 500]),
            width + chance.choice([0, 1, 64, 333]),
            chance.randrange(1, 5),
        )


@pytest.mark.parametrize("asynchronous", [False, True])
def test_rectangles_against_numpy(runtime: None, asynchronous: bool) -> None:
    for width, height, dpitch, spitch, kind in random_rectangles():
        source = (host if kind == H2D else device)(spitch * height)
        target = (host if kind == D2H else device)(dpitch * height)
        given = numpy.frombuffer(noise(spitch * height), numpy.uint8).reshape(height, spitch)
        expected = numpy.full((height, dpitch), 9, numpy.uint8)
        write(source, given.tobytes())
        write(target, expected.tobytes())
        expected[:, :width] = given[:, :width]
        if asynchronous:
            ok(acl.rt.memcpy2d_async(target, dpitch, source, spitch, width, height, kind, 0))
            ok(acl.rt.synchronize_stream(0))
        else:
            ok(acl.rt.memcpy2d(target, dpitch, source, spitch, width, height, kind))
        assert read(target, dpitch * height) == expected.tobytes()


@pytest.mark.parametrize("call", ["memcpy2d", "memcpy2d_async"])
def test_arguments_of_rectangles_are_checked(runtime: None, call: str) -> None:
    def copy(*arguments: int) -> int:
        rest = () if call == "memcpy2d" else (0,)
        return int(getattr(acl.rt, call)(*arguments, *rest))

    one, two = device(1000), host(1000)
    assert copy(0, 0, 0, 0, 0, 5, 99) == 0
    assert copy(0, 0, 0, 0, 5, 0, 99) == 0
    assert copy(0, 10, two, 10, 10, 10, H2D) == 100000
    assert copy(one, 10, 0, 10, 10, 10, H2D) == 100000
    assert copy(one, 9, two, 10, 10, 10, H2D) == 100000
    assert copy(one, 10, two, 9, 10, 10, H2D) == 100000
    assert "pitch" in message()
    for kind in (-1, 0, 5, 6, 7):
        assert copy(one, 10, two, 10, 10, 10, kind) == 100000
    assert copy(one, 10, two, 10, 10, 200, H2D) == 107000
    assert "1000-byte" in message()
    assert copy(one, 10, two, 20, 10, 100, H2D) == 107000
    assert "1000-byte host" in message()
    assert copy(one, 1 << 60, two, 1 << 60, 1, 1 << 60, H2D) == 107000
    assert copy(one, 20, two, 10, 10, 50, H2D) == 0  # the last row ends before the pitch does
    assert in_thread(lambda: copy(one, 10, two, 10, 10, 10, H2D)) == 107002
    ok(acl.rt.synchronize_stream(0))


def test_a_tall_thin_rectangle_is_copied_in_no_time(runtime: None) -> None:
    height = 8 * MIB
    one, two = device(2 * height), device(height)
    ok(acl.rt.memset(one, 2 * height, 5, 2 * height))
    assert in_thread(lambda: acl.rt.set_device(0) or acl.rt.memcpy2d(two, 1, one, 2, 1, height, D2D), 10) == 0
    assert read(two, height) == b"\5" * height


# ---- memset ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ROUND_THE_EDGES)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_fills_set_each_byte_and_no_other(runtime: None, size: int, asynchronous: bool) -> None:
    ptr = device(size + 2)
    for value in (0, 1, 0x7F, 0x80, 0xFF, -1, 0x1234):
        write(ptr, noise(size + 2))
        if asynchronous:
            ok(acl.rt.memset_async(ptr + 1, size, value, size, 0))
            ok(acl.rt.synchronize_stream(0))
        else:
            ok(acl.rt.memset(ptr + 1, size, value, size))
        edges = noise(size + 2)
        assert read(ptr, size + 2) == edges[:1] + bytes([value & 0xFF]) * size + edges[-1:]


@pytest.mark.parametrize("call", ["memset", "memset_async"])
def test_arguments_of_fills_are_checked(runtime: None, call: str) -> None:
    def fill(*arguments: int) -> int:
        rest = () if call == "memset" else (0,)
        return int(getattr(acl.rt, call)(*arguments, *rest))

    ptr, array = device(1000), numpy.zeros(100, numpy.uint8)
    assert fill(0, 100, 0, 100) == 100000
    assert fill(ptr, 99, 0, 100) == 107000
    assert fill(ptr, 5000, 0, 5000) == 107000
    assert "1000-byte" in message()
    assert fill(ptr, 0, 0, 0) == 0
    assert fill(ptr, 1 << 40, 0, 100) == 0  # the limit is the caller's word
    assert fill(array.ctypes.data, 100, 3, 100) == 0
    ok(acl.rt.synchronize_stream(0))
    assert (array == 3).all()
    assert in_thread(lambda: fill(ptr, 10, 0, 10)) == 107002


# ---- in stream order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["memcpy_async", "memcpy_async_with_condition"])
def test_streams_copy_beside_each_other_and_each_in_order(runtime: None, call: str) -> None:
    function, chance = getattr(acl.rt, call), random.Random(1)
    lanes = []
    for lane in range(4):
        stream, size = ok(acl.rt.create_stream()), chance.choice([64, 5000, 200_000, MIB])
        source, first, second, target = host(size), device(size), device(size), host(size)
        write(source, noise(size, lane))
        lanes.append((stream, size, source, first, second, target, lane))
    for stream, size, source, first, second, target, _ in lanes:
        for _ in range(10):
            ok(function(first, size, source, size, H2D, stream))
            ok(acl.rt.memset_async(second, size, 0, size, stream))
            ok(function(second, size, first, size, D2D, stream))
            ok(acl.rt.memset_async(first, size, 1, size, stream))
            ok(function(target, size, second, size, D2H, stream))
    for stream, size, _, first, _, target, lane in lanes:
        ok(acl.rt.synchronize_stream(stream))
        assert read(target, size) == noise(size, lane)
        assert read(first, size) == b"\1" * size


@pytest.mark.parametrize("size", [64, MIB])
def test_a_source_that_is_freed_too_early_is_an_error_at_synchronise(runtime: None, size: int) -> None:
    stream = ok(acl.rt.create_stream())
    source, target = device(size), device(size)
    ok(acl.rt.memset(target, size, 7, size))
    with Hold(stream):
        ok(acl.rt.memcpy_async(target, size, source, size, D2D, stream))
        ok(acl.rt.free(source))
    assert acl.rt.synchronize_stream(stream) == 107000
    assert f"the {size}-byte device allocation" in message()
    assert read(target, size) == b"\7" * size
    assert acl.rt.synchronize_stream(stream) == 0


def test_a_target_that_is_freed_too_early_is_an_error_at_synchronise(runtime: None) -> None:
    stream, source = ok(acl.rt.create_stream()), device(1000)
    for task in (
        lambda ptr: acl.rt.memcpy_async(ptr, 1000, source, 1000, D2D, stream),
        lambda ptr: acl.rt.memcpy_async(ptr, 1000, source, 1000, H2B, stream),
        lambda ptr: acl.rt.memcpy2d_async(ptr, 10, source, 10, 10, 10, D2D, stream),
        lambda ptr: acl.rt.memset_async(ptr, 1000, 0, 1000, stream),
        lambda ptr: acl.rt.value_write(ptr, 1, 0, stream),
        lambda ptr: acl.rt.value_wait(ptr, 1 << 63, 0, stream),
        lambda ptr: acl.rt.reduce_async(ptr, source, 1000, 10, 4, stream, 0),
    ):
        target = device(1000)
        with Hold(stream):
            ok(task(target))
            ok(acl.rt.free(target))
        assert acl.rt.synchronize_stream_with_timeout(stream, int(WAIT * 1000)) == 107000
        assert "the 1000-byte device allocation" in message()


def test_a_source_that_is_unmapped_too_early_is_an_error_at_synchronise(runtime: None) -> None:
    stream, pages, target = ok(acl.rt.create_stream()), map_pages(3), device(3 * PAGE)
    with Hold(stream):
        ok(acl.rt.memcpy_async(target, 3 * PAGE, pages, 3 * PAGE, H2D, stream))
        unmap_pages(pages, 3)
    assert acl.rt.synchronize_stream(stream) == 107000


def test_the_source_is_read_when_the_stream_is_there(runtime: None) -> None:
    stream, source, target = ok(acl.rt.create_stream()), host(1000), device(1000)
    write(source, b"a" * 1000)
    with Hold(stream):
        ok(acl.rt.memcpy_async(target, 1000, source, 1000, H2D, stream))
        write(source, b"b" * 1000)
    ok(acl.rt.synchronize_stream(stream))
    assert read(target, 1000) == b"b" * 1000


def test_a_copy_through_the_buffer_reads_the_source_at_once(runtime: None) -> None:
    stream, source, target = ok(acl.rt.create_stream()), host(1000), device(1000)
    write(source, b"a" * 1000)
    with Hold(stream):
        ok(acl.rt.memcpy_async(target, 1000, source, 1000, H2B, stream))
        write(source, b"b" * 1000)
        ok(acl.rt.free_host(source))
    ok(acl.rt.synchronize_stream(stream))
    assert read(target, 1000) == b"a" * 1000


@pytest.mark.parametrize("kind", [H2H, DEFAULT])
def test_host_to_host_is_submitted_and_fails_at_synchronise(runtime: None, kind: int) -> None:
    stream, source, target = ok(acl.rt.create_stream()), host(1000), host(1000)
    write(source, b"a" * 1000)
    write(target, b"b" * 1000)
    assert acl.rt.memcpy_async(target, 1000, source, 1000, kind, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 207000
    assert "host-to-host" in message()
    assert read(target, 1000) == b"b" * 1000
    assert acl.rt.synchronize_stream(stream) == 0


def test_asynchronous_work_needs_a_stream_of_this_context(runtime: None) -> None:
    stream = ok(acl.rt.create_stream())
    ok(acl.rt.create_context(0))
    one, two = device(64), device(64)
    for answer in (
        acl.rt.memcpy_async(one, 64, two, 64, D2D, stream),
        acl.rt.memset_async(one, 64, 0, 64, stream),
        acl.rt.memcpy2d_async(one, 8, two, 8, 8, 8, D2D, stream),
        acl.rt.value_write(one, 1, 0, stream),
        acl.rt.reduce_async(one, two, 64, 10, 0, stream, 0),
        acl.rt.cmo_async(one, 64, 0, stream),
    ):
        assert answer == 107003


# ---- descriptors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [H2D, D2H, D2D])
def test_a_descriptor_copies_what_it_says_when_it_is_reached(runtime: None, kind: int) -> None:
    size = ok(acl.rt.get_memcpy_desc_size(kind))
    assert size > 0
    desc = device(size)
    source = (host if kind == H2D else device)(500)
    target = (host if kind == D2H else device)(500)
    data = noise(500)
    write(source, data)
    stream = ok(acl.rt.create_stream())
    with Hold(stream):
        ok(acl.rt.memcpy_async_with_desc(desc, kind, stream))  # filled in later, before it is reached
        assert acl.rt.set_memcpy_desc(desc, kind, source, target, 500, 0) == (desc, 0)
    ok(acl.rt.synchronize_stream(stream))
    assert read(target, 500) == data


def test_descriptors_are_checked(runtime: None) -> None:
    size = ok(acl.rt.get_memcpy_desc_size(D2D))
    desc, one, two = device(size), device(100), device(100)
    for kind in (0, 4, 5, 6, -1):
        assert acl.rt.get_memcpy_desc_size(kind) == (0, 207000)
        assert acl.rt.set_memcpy_desc(desc, kind, one, two, 100, 0) == (0, 207000)
        assert acl.rt.memcpy_async_with_desc(desc, kind, 0) == 207000
    for arguments in (
        (0, D2D, one, two, 100),
        (desc, D2D, 0, two, 100),
        (desc, D2D, one, 0, 100),
        (desc, D2D, one, two, 0),
    ):
        assert acl.rt.set_memcpy_desc(*arguments, 0) == (0, 100000)
    assert acl.rt.set_memcpy_desc(desc, D2D, one, two, 100, 1) == (0, 100000)
    assert acl.rt.memcpy_async_with_desc(0, D2D, 0) == 100000
    small = device(1)
    assert acl.rt.set_memcpy_desc(small + 40, D2D, one, two, 100, 0) == (0, 107000)


def test_garbage_in_a_descriptor_is_an_error_and_nothing_else(runtime: None) -> None:
    size = ok(acl.rt.get_memcpy_desc_size(D2D))
    desc, one, two = device(size), device(100), device(100)
    chance = random.Random(3)
    ok(acl.rt.memset(desc, size, 0, size))
    ok(acl.rt.memcpy_async_with_desc(desc, D2D, 0))
    assert acl.rt.synchronize_stream(0) == 107000
    for _ in range(300):
        ok(acl.rt.set_memcpy_desc(desc, D2D, one, two, 100, 0))
        place, bit = chance.randrange(40), chance.randrange(8)
        write(desc + place, bytes([read(desc + place, 1)[0] ^ 1 << bit]))
        ok(acl.rt.memcpy_async_with_desc(desc, D2D, 0))
        assert acl.rt.synchronize_stream(0) in (0, 107000)


def test_a_descriptor_with_memory_that_is_gone(runtime: None) -> None:
    desc, one, two = device(ok(acl.rt.get_memcpy_desc_size(D2D))), device(100), device(100)
    ok(acl.rt.set_memcpy_desc(desc, D2D, one, two, 100, 0))
    ok(acl.rt.free(one))
    ok(acl.rt.memcpy_async_with_desc(desc, D2D, 0))
    assert acl.rt.synchronize_stream(0) == 107000
    assert "the 100-byte device allocation" in message()


# ---- words -----------------------------------------------------------------------------------------------------------


def test_a_word_is_written_in_stream_order(runtime: None) -> None:
    stream, ptr = ok(acl.rt.create_stream()), device(64)
    ok(acl.rt.memset(ptr, 64, 0, 64))
    with Hold(stream):
        ok(acl.rt.value_write(ptr + 8, 0x1122334455667788, 0, stream))
        assert read(ptr, 24) == bytes(24)
    ok(acl.rt.synchronize_stream(stream))
    assert read(ptr, 24) == bytes(8) + (0x1122334455667788).to_bytes(8, "little") + bytes(8)
    ok(acl.rt.value_write(ptr, -1, 0, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert read(ptr, 8) == b"\xff" * 8


TOP = (1 << 64) - 1
# flag, value of the wait, words that do not satisfy it, a word that does
WAITS = [
    (0, 10, [0, 9], 10),
    (0, 10, [1], TOP),
    (1, 7, [0, 6, 8, TOP], 7),
    (2, 0b110, [0, 1, 8], 4),
    (3, 1, [TOP, TOP - 1], 8),
]


@pytest.mark.parametrize(("flag", "value", "short", "enough"), WAITS)
def test_a_stream_waits_until_the_word_compares(
    runtime: None, flag: int, value: int, short: list[int], enough: int
) -> None:
    waiting, writing, ptr, mark = ok(acl.rt.create_stream()), ok(acl.rt.create_stream()), device(64), device(64)
    ok(acl.rt.memset(mark, 64, 0, 64))
    write(ptr, short[0].to_bytes(8, "little"))
    ok(acl.rt.value_wait(ptr, value, flag, waiting))
    ok(acl.rt.memset_async(mark, 1, 1, 1, waiting))
    for word in short:
        ok(acl.rt.value_write(ptr, word, 0, writing))
        ok(acl.rt.synchronize_stream(writing))
        assert acl.rt.synchronize_stream_with_timeout(waiting, 20) == 507046
        assert read(mark, 1) == b"\0"
    ok(acl.rt.value_write(ptr, enough, 0, writing))
    ok(acl.rt.synchronize_stream_with_timeout(waiting, int(WAIT * 1000)))
    assert read(mark, 1) == b"\1"


def test_two_streams_play_ping_pong(runtime: None) -> None:
    one, two, ptr = ok(acl.rt.create_stream()), ok(acl.rt.create_stream()), device(64)
    ok(acl.rt.memset(ptr, 64, 0, 64))
    for turn in range(20):
        ok(acl.rt.value_wait(ptr, 2 * turn, 1, one))
        ok(acl.rt.value_write(ptr, 2 * turn + 1, 0, one))
        ok(acl.rt.value_wait(ptr, 2 * turn + 1, 1, two))
        ok(acl.rt.value_write(ptr, 2 * turn + 2, 0, two))
    ok(acl.rt.synchronize_stream_with_timeout(one, int(WAIT * 1000)))
    ok(acl.rt.synchronize_stream_with_timeout(two, int(WAIT * 1000)))
    assert read(ptr, 8) == (40).to_bytes(8, "little")


def test_the_program_itself_may_write_the_word(runtime: None) -> None:
    stream, ptr = ok(acl.rt.create_stream()), device(64)
    ok(acl.rt.memset(ptr, 64, 0, 64))
    ok(acl.rt.value_wait(ptr, 5, 1, stream))
    assert acl.rt.synchronize_stream_with_timeout(stream, 10) == 507046
    write(ptr, (5).to_bytes(8, "little"))
    ok(acl.rt.synchronize_stream_with_timeout(stream, int(WAIT * 1000)))


def test_an_abort_ends_a_wait(runtime: None) -> None:
    stream, ptr, mark = ok(acl.rt.create_stream()), device(64), device(64)
    ok(acl.rt.memset(ptr, 64, 0, 64))
    ok(acl.rt.memset(mark, 64, 0, 64))
    ok(acl.rt.value_wait(ptr, 5, 1, stream))
    ok(acl.rt.memset_async(mark, 1, 1, 1, stream))
    ok(acl.rt.stream_abort(stream))
    assert acl.rt.synchronize_stream_with_timeout(stream, int(WAIT * 1000)) in (0, 107023)
    assert read(mark, 1) == b"\0"  # what stood behind the wait was dropped
    ok(acl.rt.memset_async(mark, 1, 2, 1, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert read(mark, 1) == b"\2"


def test_memory_that_is_freed_under_a_waiting_stream_ends_the_wait(runtime: None) -> None:
    stream, ptr = ok(acl.rt.create_stream()), device(4040)
    ok(acl.rt.memset(ptr, 64, 0, 64))
    ok(acl.rt.value_wait(ptr, 5, 1, stream))
    assert acl.rt.synchronize_stream_with_timeout(stream, 10) == 507046
    ok(acl.rt.free(ptr))
    assert acl.rt.synchronize_stream_with_timeout(stream, int(WAIT * 1000)) == 107000
    assert "the 4040-byte device allocation" in message()


def test_words_are_checked(runtime: None) -> None:
    ptr = device(64)
    for call in (acl.rt.value_write, acl.rt.value_wait):
        assert call(0, 1, 0, 0) == 100000
        assert call(ptr + 4, 1, 0, 0) == 107000
        assert "multiple of 8" in message()
        assert call(ptr + 128, 1, 0, 0) == 107000
        assert call(ptr, 1, 99, 0) == 100000
    assert acl.rt.value_write(ptr, 1, 1, 0) == 100000
    assert acl.rt.value_wait(ptr, 1, 4, 0) == 100000
    assert in_thread(lambda: acl.rt.value_write(ptr, 1, 0, 0)) == 107002


def test_force_ends_a_stream_that_waits(runtime: None) -> None:
    stream, ptr = ok(acl.rt.create_stream()), device(64)
    ok(acl.rt.memset(ptr, 64, 0, 64))
    ok(acl.rt.value_wait(ptr, 5, 1, stream))
    assert in_thread(lambda: acl.rt.set_device(0) or acl.rt.destroy_stream_force(stream)) == 0


# ---- reductions ------------------------------------------------------------------------------------------------------

SUM, MAX, MIN, EQUAL = 10, 11, 12, 13
TYPES = {0: "f4", 1: "f2", 2: "i1", 3: "i4", 4: "u1", 6: "i2", 7: "u2", 8: "u4", 9: "i8", 10: "u8", 11: "f8"}
FORMULAS: dict[int, Callable[[Any, Any], Any]] = {
    SUM: lambda a, b: a + b,
    MAX: lambda a, b: numpy.where(a > b, a, b),
    MIN: lambda a, b: numpy.where(a < b, a, b),
    EQUAL: lambda a, b: (a == b).astype(a.dtype),
}


def reduce(left: numpy.ndarray, right: numpy.ndarray, kind: int, data_type: int) -> numpy.ndarray:
    size = left.nbytes
    one, two = write(device(size), left.tobytes()), write(device(size), right.tobytes())
    ok(acl.rt.reduce_async(one, two, size, kind, data_type, 0, 0))
    ok(acl.rt.synchronize_stream(0))
    assert read(two, size) == right.tobytes()
    return numpy.frombuffer(read(one, size), left.dtype)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("kind", FORMULAS)
def test_reductions_against_numpy(runtime: None, kind: int, data_type: int) -> None:
    chance = numpy.random.default_rng(data_type)
    dtype = numpy.dtype(TYPES[data_type])
    if dtype.kind == "f":
        left, right = (chance.normal(0, 100, 999).astype(dtype) for _ in range(2))
    else:
        limits = numpy.iinfo(dtype)
        left, right = (chance.integers(limits.min, limits.max, 999, dtype, endpoint=True) for _ in range(2))
    right[::3] = left[::3]
    with numpy.errstate(all="ignore"):
        expected = FORMULAS[kind](left, right)
    assert reduce(left, right, kind, data_type).tobytes() == expected.astype(dtype).tobytes()


def test_half_floats_overflow_to_infinity_without_a_warning(runtime: None) -> None:
    left, right = numpy.array([60000, -60000, 1], "f2"), numpy.array([60000, -60000, 2], "f2")
    assert reduce(left, right, SUM, 1).tolist() == [numpy.inf, -numpy.inf, 3]


def all_bfloat16() -> tuple[numpy.ndarray, numpy.ndarray]:
    """Every finite bfloat16 in ascending order, with its bits: positive zero stands for both zeros."""
    exponents_below_infinity = numpy.arange(0x7F80, dtype=numpy.uint32)
    bits = numpy.concatenate([exponents_below_infinity, exponents_below_infinity[1:] | 0x8000])
    values = (bits << 16).view(numpy.float32).astype(numpy.float64)
    order = numpy.argsort(values)
    return values[order], bits[order].astype(numpy.uint16)


def nearest_bfloat16(exact: numpy.ndarray) -> numpy.ndarray:
    """The bits of the nearest bfloat16, ties to the even one: by looking at both neighbours, not by arithmetic on bits."""
    values, bits = all_bfloat16()
    place = numpy.clip(numpy.searchsorted(values, exact), 1, len(values) - 1)
    below, above = place - 1, place
    to_below, to_above = exact - values[below], values[above] - exact
    take_above = (to_above < to_below) | ((to_above == to_below) & (bits[above] % 2 == 0))
    return numpy.where(take_above, bits[above], bits[below])


@pytest.mark.parametrize("kind", FORMULAS)
def test_bfloat16_against_the_nearest_of_all_its_values(runtime: None, kind: int) -> None:
    chance = numpy.random.default_rng(27)
    magnitudes = numpy.exp2(chance.integers(-20, 20, (2, 4000))) * chance.uniform(-2, 2, (2, 4000))
    left, right = nearest_bfloat16(magnitudes[0]), nearest_bfloat16(magnitudes[1])
    right[::5] = left[::5]
    # Sums that lie exactly between two values: 1 + k/256, half a step above a value of seven fraction bits.
    left[:256] = nearest_bfloat16(1 + numpy.arange(256) / 128 * 0.5)
    right[:256] = nearest_bfloat16(numpy.full(256, 1 / 256))
    wide = [(one.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64) for one in (left, right)]
    expected = nearest_bfloat16(FORMULAS[kind](*wide))
    got = reduce(left, right, kind, 27)
    got = numpy.where(got == 0x8000, 0, got)
    assert got.tolist() == expected.tolist()


def test_bfloat16_keeps_nan_and_infinity(runtime: None) -> None:
    infinity, nan, largest, one = 0x7F80, 0x7FC0, 0x7F7F, 0x3F80
    left = numpy.array([infinity, nan, largest, infinity], numpy.uint16)
    right = numpy.array([one, one, largest, 0xFF80], numpy.uint16)
    got = reduce(left, right, SUM, 27)
    assert got[0] == infinity and got[2] == infinity
    assert all(bits & 0x7F80 == 0x7F80 and bits & 0x7F for bits in (int(got[1]), int(got[3])))


def test_reductions_are_checked(runtime: None) -> None:
    one, two = device(64), device(64)
    assert acl.rt.reduce_async(0, two, 64, SUM, 0, 0, 0) == 100000
    assert acl.rt.reduce_async(one, 0, 64, SUM, 0, 0, 0) == 100000
    for kind in (0, 9, 14, -1):
        assert acl.rt.reduce_async(one, two, 64, kind, 0, 0, 0) == 100000
    for data_type in (-1, 5, 13, 29, 999):
        assert acl.rt.reduce_async(one, two, 64, SUM, data_type, 0, 0) == 207000
    assert acl.rt.reduce_async(one, two, 63, SUM, 0, 0, 0) == 107000
    assert "bytes" in message()
    assert acl.rt.reduce_async(one, two, 256, SUM, 0, 0, 0) == 107000
    assert acl.rt.reduce_async(one, two, 64, SUM, 0, 0, 1) == 100000


def test_a_reduction_reads_memory_that_cannot_be_written(runtime: None) -> None:
    pages, ptr = map_pages(1, mmap.PROT_READ), device(64)
    ok(acl.rt.memset(ptr, 64, 1, 64))
    ok(acl.rt.reduce_async(ptr, pages, 64, SUM, 4, 0, 0))
    ok(acl.rt.synchronize_stream(0))
    assert read(ptr, 64) == b"\1" * 64
    assert acl.rt.reduce_async(pages, ptr, 64, SUM, 4, 0, 0) == 107000
    unmap_pages(pages, 1)


# ---- caches ----------------------------------------------------------------------------------------------------------


def test_cache_operations_change_nothing(runtime: None) -> None:
    ptr, data = device(1000), noise(1000)
    write(ptr, data)
    for kind in range(4):
        ok(acl.rt.cmo_async(ptr, 1000, kind, 0))
    ok(acl.rt.synchronize_stream(0))
    assert read(ptr, 1000) == data
    for kind in (-1, 4):
        assert acl.rt.cmo_async(ptr, 1000, kind, 0) == 100000
    assert acl.rt.cmo_async(ptr, 0, 0, 0) == 100000
    assert acl.rt.cmo_async(0, 10, 0, 0) == 100000
    assert acl.rt.cmo_async(ptr, 5000, 0, 0) == 107000


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_threads_copy_at_the_same_time(runtime: None) -> None:
    context, failures = ok(acl.rt.get_context()), []

    def life(seed: int) -> None:
        ok(acl.rt.set_context(context))
        data = noise(300_000, seed)
        source, target = device(300_000), host(300_000)
        for _ in range(30):
            ok(acl.rt.memcpy(source, 300_000, acl.util.bytes_to_ptr(data), 300_000, H2D))
            ok(acl.rt.memcpy(target, 300_000, source, 300_000, D2H))
            if read(target, 300_000) != data:
                failures.append(seed)
            ok(acl.rt.memset(target, 300_000, 0, 300_000))

    threads = [threading.Thread(target=life, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert failures == [] and not any(thread.is_alive() for thread in threads)
