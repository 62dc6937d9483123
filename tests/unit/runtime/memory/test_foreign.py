"""Foreign memory: what can be read or written is told without a fault, and short-lived objects live long enough."""

from __future__ import annotations

import ctypes
import errno
import gc
import mmap
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from softnpu.runtime.memory import foreign
from softnpu.runtime.memory.foreign import Pins, usable_prefix, writable

PAGE = mmap.PAGESIZE
HEADER = bytes.__basicsize__ - 1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
READ, WRITE, NONE = mmap.PROT_READ, mmap.PROT_WRITE, 0


class Pages:
    """Eight pages in the middle of nowhere: the page before and the page behind are not mapped."""

    def __init__(self) -> None:
        self.whole = _libc.mmap(None, 10 * PAGE, READ | WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        self.start = self.whole + PAGE
        self.end = self.start + 8 * PAGE
        self.unmap(-1)
        self.unmap(8)

    def unmap(self, page: int) -> None:
        assert _libc.munmap(self.start + page * PAGE, PAGE) == 0

    def protect(self, page: int, rights: int, count: int = 1) -> None:
        assert _libc.mprotect(self.start + page * PAGE, count * PAGE, rights) == 0


def _old_kernel(*_arguments: int) -> int:
    ctypes.set_errno(errno.EINVAL)
    return -1


@pytest.fixture(params=["kernel", "maps"])
def pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    """Pages, asked about through madvise and through /proc/self/maps (kernels before 5.14)."""
    if request.param == "maps":
        monkeypatch.setattr(foreign, "_madvise", _old_kernel)
    mapped = Pages()
    yield mapped
    _libc.munmap(mapped.whole, 10 * PAGE)


# ---- ranges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [False, True])
def test_mapped_ranges_are_usable_up_to_the_hole(pages: Pages, write: bool) -> None:
    assert usable_prefix(pages.start, 8 * PAGE, write) == 8 * PAGE
    assert usable_prefix(pages.start + 100, 50, write) == 50
    assert usable_prefix(pages.start + PAGE - 1, 2, write) == 2
    assert usable_prefix(pages.end - 1, 1, write) == 1
    assert usable_prefix(pages.end - 1, 2, write) == 1
    assert usable_prefix(pages.start + 5, 9 * PAGE, write) == 8 * PAGE - 5
    assert usable_prefix(pages.start + 5, 1 << 46, write) == 8 * PAGE - 5


@pytest.mark.parametrize("write", [False, True])
def test_unmapped_addresses_are_not_usable(pages: Pages, write: bool) -> None:
    for address in (pages.start - 1, pages.start - PAGE, pages.end, pages.end + 8):
        assert usable_prefix(address, 1, write) == 0
        assert usable_prefix(address, 3 * PAGE, write) == 0
    pages.unmap(3)
    assert usable_prefix(pages.start, 8 * PAGE, write) == 3 * PAGE
    assert usable_prefix(pages.start + 3 * PAGE, 16, write) == 0
    assert usable_prefix(pages.start + 4 * PAGE, 4 * PAGE, write) == 4 * PAGE


def test_read_only_pages_can_be_read_and_not_written(pages: Pages) -> None:
    pages.protect(2, READ, 2)
    assert usable_prefix(pages.start, 8 * PAGE, False) == 8 * PAGE
    assert usable_prefix(pages.start, 8 * PAGE, True) == 2 * PAGE
    assert usable_prefix(pages.start + 2 * PAGE, 8, True) == 0
    assert usable_prefix(pages.start + 3 * PAGE + 7, 8, False) == 8
    assert usable_prefix(pages.start + 4 * PAGE, 8, True) == 8
    assert not writable(pages.start + PAGE, 2 * PAGE)
    assert writable(pages.start, 2 * PAGE)


def test_pages_without_any_right_cannot_be_touched(pages: Pages) -> None:
    pages.protect(1, NONE)
    for write in (False, True):
        assert usable_prefix(pages.start, 8 * PAGE, write) == PAGE
        assert usable_prefix(pages.start + PAGE, 1, write) == 0
        assert usable_prefix(pages.start + PAGE, 2 * PAGE, write) == 0
        assert usable_prefix(pages.start + 2 * PAGE, 6 * PAGE, write) == 6 * PAGE


@pytest.mark.parametrize("address", [0, -1, 1, 8, 0xDEADBEEF, (1 << 47) - 8, 1 << 47, 1 << 56, 1 << 63, (1 << 64) - 8])
def test_absurd_addresses_are_not_usable(pages: Pages, address: int) -> None:
    for size in (1, 8, PAGE, 1 << 40, 1 << 64):
        assert usable_prefix(address, size, False) == 0
        assert usable_prefix(address, size, True) == 0


def test_no_bytes_are_no_bytes(pages: Pages) -> None:
    assert usable_prefix(pages.start, 0, False) == 0
    assert usable_prefix(pages.start, -5, True) == 0


@pytest.mark.parametrize("write", [False, True])
def test_pages_beyond_the_end_of_a_mapped_file_are_not_usable(tmp_path: Path, write: bool) -> None:
    # The maps call them readable, but touching one is SIGBUS: only the kernel's word counts.
    path = tmp_path / "short"
    path.write_bytes(bytes(2 * PAGE + 10))
    with path.open("r+b") as file:
        address = _libc.mmap(None, 300 * PAGE, READ | WRITE, mmap.MAP_SHARED, file.fileno(), 0)
    assert usable_prefix(address, 3 * PAGE, write) == 3 * PAGE
    assert usable_prefix(address, 4 * PAGE, write) == 3 * PAGE
    assert usable_prefix(address, 300 * PAGE, write) == 3 * PAGE
    assert usable_prefix(address + 3 * PAGE, 5, write) == 0
    assert usable_prefix(address + 3 * PAGE, 5 * PAGE, write) == 0
    _libc.munmap(address, 300 * PAGE)


def test_the_clock_pages_of_the_kernel_are_not_usable() -> None:
    for low, high, _, name in foreign._maps():
        if name.strip() == "[vvar]":
            assert usable_prefix(low, high - low, False) < high - low
            assert usable_prefix(low, 8, True) == 0


def test_a_doomed_write_does_not_fill_memory_first(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 512 << 20
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
    address = _libc.mmap(None, size + PAGE, READ | WRITE, flags, -1, 0)
    _libc.munmap(address + size, PAGE)
    populated: list[int] = []
    real = foreign._madvise

    def watched(start: int, length: int, advice: int) -> int:
        if address <= start < address + size:
            populated.append(length)
        return int(real(start, length, advice))

    monkeypatch.setattr(foreign, "_madvise", watched)
    monkeypatch.setattr(foreign, "_prefix_by_kernel", lambda _address, size, _write: size)
    assert usable_prefix(address, size + PAGE, True) == size
    assert populated == []
    _libc.munmap(address, size)


def test_maps_are_read_with_names_that_hold_blanks_and_odd_letters(tmp_path: Path) -> None:
    path = tmp_path / "a name  with blanks é\n r-x"
    path.write_bytes(bytes(PAGE))
    with path.open("rb") as file:
        address = _libc.mmap(None, PAGE, READ, mmap.MAP_PRIVATE, file.fileno(), 0)
    rows = {low: (high, rights, name) for low, high, rights, name in foreign._maps()}
    high, rights, name = rows[address]
    assert high == address + PAGE and rights.startswith("r--") and "a name  with blanks" in name
    _libc.munmap(address, PAGE)


# ---- pins ------------------------------------------------------------------------------------------------------------


def pin_bytes(pins: Pins, data: bytes) -> int:
    address = id(data) + HEADER
    pins.add_bytes(address, data)
    return address


def pin_array(pins: Pins, array: Any) -> int:
    address = int(array.__array_interface__["data"][0])
    pins.add_array(address, array)
    return address


class Tracked(bytes):
    """Bytes that say when they go."""

    gone: list[int]
    number = 0

    def __del__(self) -> None:
        self.gone.append(self.number)


def tracked(number: int, size: int, gone: list[int]) -> Tracked:
    data = Tracked(size)
    data.number, data.gone = number, gone
    return data


def test_a_temporary_bytes_object_lives_on_although_it_was_dropped_at_once() -> None:
    pins = Pins()
    address = pin_bytes(pins, numpy.arange(1000, dtype=numpy.int32).tobytes())
    junk = [bytes([number]) * 4000 for number in range(50)]
    assert ctypes.string_at(address, 4000) == numpy.arange(1000, dtype=numpy.int32).tobytes()
    assert pins.room(address, True) == pins.room(address, False) == 4000
    assert len(junk) == 50


def test_only_the_newest_bytes_objects_are_kept() -> None:
    pins = Pins()
    gone: list[int] = []
    for number in range(200):
        pin_bytes(pins, tracked(number, 100, gone))
    assert gone == list(range(200 - 64))


def test_pinned_bytes_are_bounded_by_their_size_too() -> None:
    pins = Pins()
    gone: list[int] = []
    for number in range(10):
        pin_bytes(pins, tracked(number, 20 << 20, gone))
    assert gone == list(range(7))
    address = pin_bytes(pins, tracked(99, (64 << 20) + 1, gone))
    assert gone[-1] == 99
    assert pins.room(address, False) is None


def test_pinning_the_same_object_again_makes_it_the_newest() -> None:
    pins = Pins()
    first = b"first" * 100
    address = pin_bytes(pins, first)
    for number in range(200):
        pin_bytes(pins, bytes([number]) * 50)
        pin_bytes(pins, first)
    assert pins.room(address, False) == 500
    for number in range(64):
        pin_bytes(pins, bytes([number]) * 60)
    assert pins.room(address, False) is None
    assert pins._held == 64 * 60


def test_an_array_is_known_while_it_lives_and_not_kept_alive() -> None:
    pins = Pins()
    array = numpy.zeros(1000, numpy.uint8)
    watch = weakref.ref(array)
    address = pin_array(pins, array)
    assert pins.room(address, True) == 1000
    assert pins.room(address + 1, False) == 999 and pins.room(address + 1000, False) is None
    del array
    gc.collect()
    assert watch() is None
    assert pins.room(address, False) is None
    assert not pins._arrays


def test_a_new_array_at_an_old_address_is_the_one_that_counts() -> None:
    pins = Pins()
    array = numpy.zeros(1 << 12, numpy.uint8)
    address = pin_array(pins, array)
    view = array[:100]
    assert pin_array(pins, view) == address
    del array  # the view lives on, and so does the memory
    gc.collect()
    assert pins.room(address, True) == 1 << 12
    del view
    assert pins.room(address, True) is None


def test_a_view_reaches_to_the_end_of_the_array_that_owns_the_memory() -> None:
    pins = Pins()
    whole = numpy.zeros((10, 100), numpy.uint8)
    row = whole[4]
    assert pins.room(pin_array(pins, row), True) == 600


def test_arrays_that_do_not_own_plain_memory_are_left_to_the_kernel(tmp_path: Path) -> None:
    pins = Pins()
    mapped = numpy.memmap(tmp_path / "file", numpy.uint8, "w+", shape=(100,))
    backwards = numpy.zeros(100, numpy.uint8)[::-1]
    over_bytes = numpy.frombuffer(b"x" * 100, numpy.uint8)
    for array in (mapped, backwards, over_bytes):
        assert pins.room(pin_array(pins, array), False) is None


def test_a_read_only_array_is_no_target() -> None:
    pins = Pins()
    array = numpy.zeros(100, numpy.uint8)
    array.flags.writeable = False
    address = pin_array(pins, array)
    assert pins.room(address, False) == 100
    assert pins.room(address, True) is None


def test_the_memory_of_a_known_array_cannot_move() -> None:
    pins = Pins()
    array = numpy.zeros(100, numpy.uint8)
    address = pin_array(pins, array)
    with pytest.raises(ValueError, match="cannot resize"):
        array.resize(1 << 20, refcheck=False)
    assert pins.room(address, True) == 100


def test_many_threads_pin_without_losing_count() -> None:
    pins, failures = Pins(), []
    stop = time.monotonic() + 20

    def life(mark: int) -> None:
        try:
            for number in range(3000):
                data = bytes([mark]) * (number % 300 + 2)
                address = pin_bytes(pins, data)
                if ctypes.string_at(address, 2) != bytes([mark]) * 2 or time.monotonic() > stop:
                    failures.append(mark)
                array = numpy.zeros(number % 50 + 1, numpy.uint8)
                assert pins.room(pin_array(pins, array), True) in (number % 50 + 1, None)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=life, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(pins._bytes) <= 64
    assert pins._held == sum(len(data) for data in pins._bytes.values())
