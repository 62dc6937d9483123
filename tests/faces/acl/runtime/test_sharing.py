"""Virtual addresses, and memory and notifies that several processes share."""

from __future__ import annotations

import ast
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import acl
from tests.paths import SOURCE
from tests.support import WAIT, in_thread, message, ok

GRANULE = 2 << 20
H2D, D2H, D2D = 1, 2, 3
KEY = 65
PROP: dict[str, Any] = {
    "handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}, "reserve": 0,
}  # fmt: skip
LOOP = """
import os, sys, acl

def memory_files():
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum("memfd" in os.readlink(link) for link in links if os.path.lexists(link))

for line in sys.stdin:
    try:
        answer = eval(line, globals())
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(repr(answer), flush=True)
"""


class Child:
    """Another process that does what it is told, one expression at a time."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", LOOP], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self._process.pid

    def __call__(self, expression: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the child died of {expression}: {self._process.wait()}"
        return ast.literal_eval(line)

    def start(self) -> Child:
        assert self("acl.init()") == 0
        assert self("acl.rt.set_device(0)") == 0
        return self

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture(autouse=True)
def _clear() -> None:
    acl.get_recent_err_msg()


@pytest.fixture
def child(runtime: None) -> Iterator[Child]:
    one = Child().start()
    yield one
    one.kill()


@pytest.fixture
def files() -> Iterator[Callable[[], list[str]]]:
    """The open files of this process; at the end there must be no more than at the start."""

    def listing() -> list[str]:
        return sorted(name for name in (_target(one) for one in os.listdir("/proc/self/fd")) if "memfd:softnpu" in name)

    before = listing()
    yield listing
    assert listing() == before


def _target(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


def device(size: int) -> int:
    return int(ok(acl.rt.malloc(size, 0)))


def physical(size: int = GRANULE) -> int:
    return int(ok(acl.rt.malloc_physical(size, PROP, 0)))


def reserve(size: int = GRANULE) -> int:
    return int(ok(acl.rt.reserve_mem_address(size, 0, 0, 0)))


def free_bytes() -> int:
    return int(ok(acl.rt.get_mem_info(1))[0])


def keys(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("*.share*"))


def write(ptr: int, data: bytes) -> None:
    ok(acl.rt.memcpy(ptr, len(data), acl.util.bytes_to_ptr(data), len(data), H2D))


def read(ptr: int, size: int) -> bytes:
    data: bytes = acl.util.ptr_to_bytes(ptr, size)
    return data


# ---- virtual addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granules", [1, 3])
def test_the_way_of_the_manual(runtime: None, files: Callable[[], list[str]], granules: int) -> None:
    size = granules * GRANULE
    before = free_bytes()
    vptr = reserve(size)
    assert free_bytes() == before  # addresses cost nothing
    handle = physical(size)
    assert before - free_bytes() == size
    assert acl.rt.map_mem(vptr, size, 0, handle, 0) == 0
    write(vptr, b"begin")
    write(vptr + size - 3, b"end")
    assert read(vptr, 5) == b"begin" and read(vptr + size - 3, 3) == b"end"
    assert ok(acl.rt.pointer_get_attributes(vptr + 5))["location"] == {"id": 0, "type": 1}
    assert acl.rt.memset(vptr + size - 1, 2, 0, 2) == 107000
    assert acl.rt.unmap_mem(vptr) == 0
    assert acl.rt.release_mem_address(vptr) == 0
    assert acl.rt.free_physical(handle) == 0
    assert free_bytes() == before


def test_addresses_without_memory_cannot_be_touched(runtime: None) -> None:
    vptr, handle = reserve(), physical()
    for _ in range(2):
        for answer in (
            acl.rt.memset(vptr, 1, 0, 1),
            acl.rt.memcpy(vptr, 1, device(1), 1, D2D),
            acl.rt.memcpy(device(1), 1, vptr + 77, 1, D2D),
            acl.rt.free(vptr),
        ):
            assert answer == 107000
        assert "no physical memory is mapped there" in message()
        with pytest.raises(ValueError, match="map_mem"):
            acl.util.ptr_to_bytes(vptr, 1)
        ok(acl.rt.map_mem(vptr, GRANULE, 0, handle, 0))
        ok(acl.rt.memset(vptr, 1, 0, 1))
        ok(acl.rt.unmap_mem(vptr))


def test_physical_memory_keeps_its_content_while_it_is_nowhere(runtime: None) -> None:
    one, two, handle = reserve(), reserve(), physical()
    ok(acl.rt.map_mem(one, GRANULE, 0, handle, 0))
    write(one, b"kept")
    ok(acl.rt.unmap_mem(one))
    ok(acl.rt.map_mem(two, GRANULE, 0, handle, 0))
    assert read(two, 4) == b"kept"


def test_one_block_at_two_addresses_is_one_block(runtime: None) -> None:
    one, two, handle = reserve(), reserve(), physical()
    assert one != two
    ok(acl.rt.map_mem(one, GRANULE, 0, handle, 0))
    ok(acl.rt.map_mem(two, GRANULE, 0, handle, 0))
    write(one + 1000, b"seen from both")
    assert read(two + 1000, 14) == b"seen from both"
    ok(acl.rt.memset(two, GRANULE, 3, GRANULE))
    assert read(one, GRANULE) == b"\3" * GRANULE
    assert acl.rt.free_physical(handle) == 107000
    assert "still mapped at 2 place" in message()
    ok(acl.rt.unmap_mem(one))
    assert read(two, 2) == b"\3\3"
    ok(acl.rt.unmap_mem(two))
    ok(acl.rt.free_physical(handle))


def test_neighbours_are_left_alone(runtime: None) -> None:
    blocks = [reserve() for _ in range(3)]
    handles = [physical() for _ in range(3)]
    others = [device(GRANULE) for _ in range(3)]
    for index, (vptr, handle, other) in enumerate(zip(blocks, handles, others, strict=True)):
        ok(acl.rt.map_mem(vptr, GRANULE, 0, handle, 0))
        ok(acl.rt.memset(vptr, GRANULE, index + 1, GRANULE))
        ok(acl.rt.memset(other, GRANULE, index + 101, GRANULE))
    ok(acl.rt.unmap_mem(blocks[1]))
    ok(acl.rt.release_mem_address(blocks[1]))
    ok(acl.rt.free_physical(handles[1]))
    for index in (0, 2):
        assert read(blocks[index], GRANULE) == bytes([index + 1]) * GRANULE
    for index, other in enumerate(others):
        assert read(other, GRANULE) == bytes([index + 101]) * GRANULE


def test_released_addresses_do_not_show_the_old_memory(runtime: None) -> None:
    vptr, handle = reserve(), physical()
    ok(acl.rt.map_mem(vptr, GRANULE, 0, handle, 0))
    ok(acl.rt.memset(vptr, GRANULE, 0xAA, GRANULE))
    ok(acl.rt.unmap_mem(vptr))
    ok(acl.rt.release_mem_address(vptr))
    for _ in range(30):  # one of them gets the old addresses
        ptr = device(GRANULE - 64)
        ok(acl.rt.memset(ptr, GRANULE - 64, 0x55, GRANULE - 64))
    other = reserve()
    ok(acl.rt.map_mem(other, GRANULE, 0, handle, 0))
    assert read(other, GRANULE) == b"\xaa" * GRANULE


def test_mappings_are_checked(runtime: None) -> None:
    vptr, handle, ordinary = reserve(2 * GRANULE), physical(2 * GRANULE), device(2 * GRANULE)
    small, large = physical(), physical(4 * GRANULE)
    assert acl.rt.map_mem(0, GRANULE, 0, handle, 0) == 100000
    assert acl.rt.map_mem(vptr, 2 * GRANULE, 0, 0, 0) == 100000
    assert acl.rt.map_mem(vptr, 2 * GRANULE, GRANULE, handle, 0) == 100000
    assert acl.rt.map_mem(vptr, 2 * GRANULE, 0, handle, 1) == 100000
    for size in (0, 1, GRANULE, 2 * GRANULE - 1, 3 * GRANULE, 1 << 63):
        assert acl.rt.map_mem(vptr, size, 0, handle, 0) == 107000
    assert acl.rt.map_mem(vptr, 2 * GRANULE, 0, small, 0) == 107000
    assert acl.rt.map_mem(vptr + GRANULE, GRANULE, 0, handle, 0) == 107000
    assert acl.rt.map_mem(ordinary, 2 * GRANULE, 0, handle, 0) == 107000
    assert "device allocation" in message()
    assert acl.rt.map_mem(0xDEAD0000, 2 * GRANULE, 0, handle, 0) == 107000
    assert acl.rt.unmap_mem(vptr) == 107000
    ok(acl.rt.map_mem(vptr, 2 * GRANULE, 0, handle, 0))
    assert acl.rt.map_mem(vptr, 2 * GRANULE, 0, large, 0) == 107000
    assert "already" in message()
    assert acl.rt.release_mem_address(vptr) == 107000
    assert acl.rt.unmap_mem(vptr + 8) == 107000
    ok(acl.rt.unmap_mem(vptr))
    assert acl.rt.unmap_mem(vptr) == 107000
    ok(acl.rt.map_mem(vptr, 2 * GRANULE, 0, large, 0))  # more memory than addresses: the first part is seen
    ok(acl.rt.unmap_mem(vptr))
    assert acl.rt.release_mem_address(0) == 100000
    assert acl.rt.unmap_mem(0) == 100000
    ok(acl.rt.release_mem_address(vptr))
    assert acl.rt.release_mem_address(vptr) == 107000
    assert acl.rt.map_mem(vptr, 2 * GRANULE, 0, handle, 0) == 107000


def test_reservations_are_checked(runtime: None) -> None:
    for size, code in ((0, 100000), (-1, 207001), (1 << 62, 207001)):
        assert acl.rt.reserve_mem_address(size, 0, 0, 0) == (0, code)
    assert acl.rt.reserve_mem_address(GRANULE, 64, 0, 0) == (0, 100000)
    assert acl.rt.reserve_mem_address(GRANULE, 0, 0x1000, 0) == (0, 100000)
    assert acl.rt.reserve_mem_address(GRANULE, 0, 0, 2) == (0, 100000)
    ok(acl.rt.release_mem_address(ok(acl.rt.reserve_mem_address(GRANULE, 0, 0, 1))))  # huge pages, as older pages say
    assert in_thread(lambda: acl.rt.reserve_mem_address(GRANULE, 0, 0, 0)) == (0, 107002)
    capacity = ok(acl.rt.get_mem_info(1))[1]
    held = [reserve(4 * capacity) for _ in range(3)]
    assert acl.rt.reserve_mem_address(8 * capacity, 0, 0, 0) == (0, 207001)  # there is an end to addresses, too
    for vptr in held:
        ok(acl.rt.release_mem_address(vptr))
    ok(acl.rt.release_mem_address(reserve(8 * capacity)))
    whole = reserve(GRANULE + 1)  # rounded up to whole granules
    ok(acl.rt.map_mem(whole, 2 * GRANULE, 0, physical(2 * GRANULE), 0))


def test_physical_memory_is_checked(runtime: None) -> None:
    for size in (1, GRANULE - 1, GRANULE + 4096):
        assert acl.rt.malloc_physical(size, PROP, 0) == (0, 107000)
        assert str(GRANULE) in message()
    assert acl.rt.malloc_physical(0, PROP, 0)[1] in (100000, 107000)
    assert acl.rt.malloc_physical(1 << 60, PROP, 0) == (0, 207001)
    assert acl.rt.malloc_physical(GRANULE, PROP, 1) == (0, 100000)
    for changed, code in (
        ({"location": {"id": 99, "type": 1}}, 107001),
        ({"location": {"id": -1, "type": 1}}, 107001),
        ({"location": {"id": 0, "type": 0}}, 207000),
        ({"handleType": 2}, 207000),
        ({"allocationType": 1}, 207000),
    ):
        assert acl.rt.malloc_physical(GRANULE, PROP | changed, 0) == (0, code)
    for wrong in (
        {"location": 3}, {"location": {"id": "0", "type": 1}}, {"memAttr": "4"}, {"reserve": None}, {"handleType": 1.0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="wrong type"):
            acl.rt.malloc_physical(GRANULE, PROP | wrong, 0)
    with pytest.raises(TypeError, match="malloc_physical args parse failed"):
        acl.rt.malloc_physical(GRANULE, [], 0)
    assert in_thread(lambda: acl.rt.malloc_physical(GRANULE, PROP, 0)) == (0, 107002)
    assert acl.rt.free_physical(0) == 100000
    assert acl.rt.free_physical(12345) == 107000


def test_the_granularity_is_a_huge_page(runtime: None) -> None:
    assert acl.rt.mem_get_allocation_granularity(PROP, 0) == (GRANULE, 0)
    assert acl.rt.mem_get_allocation_granularity(PROP, 1) == (GRANULE, 0)
    for option in (-1, 2, 0xFFFF):
        assert acl.rt.mem_get_allocation_granularity(PROP, option) == (0, 100000)
    assert acl.rt.mem_get_allocation_granularity(PROP | {"location": {"id": 7, "type": 1}}, 0) == (0, 107001)


def test_reset_device_ends_mappings_and_physical_memory(runtime: None, files: Callable[[], list[str]]) -> None:
    total = free_bytes()
    vptr, handle, other = reserve(), physical(), reserve(3 * GRANULE)
    ok(acl.rt.map_mem(vptr, GRANULE, 0, handle, 0))
    ok(acl.rt.memset(vptr, GRANULE, 1, GRANULE))
    ok(acl.rt.reset_device(0))
    ok(acl.rt.set_device(0))
    assert free_bytes() == total
    assert acl.rt.memset(vptr, 1, 0, 1) == 107000
    assert acl.rt.unmap_mem(vptr) == 107000
    assert acl.rt.release_mem_address(other) == 107000
    assert acl.rt.free_physical(handle) == 107000
    ptr = device(3 * GRANULE)
    ok(acl.rt.memset(ptr, 3 * GRANULE, 2, 3 * GRANULE))
    assert read(ptr, 3 * GRANULE) == b"\2" * (3 * GRANULE)
    ok(acl.rt.free(ptr))
    assert free_bytes() == total


def test_finalize_ends_mappings_and_physical_memory(
    runtime: None, files: Callable[[], list[str]], tmp_path: Path
) -> None:
    vptr, handle = reserve(), physical()
    ok(acl.rt.map_mem(vptr, GRANULE, 0, handle, 0))
    reserve()
    physical()
    ok(acl.rt.mem_export_to_shareable_handle(handle, 1, 0))
    ok(acl.rt.ipc_mem_get_export_key(device(1000), 1000, KEY, 0))
    ok(acl.rt.notify_get_export_key(ok(acl.rt.create_notify(0)), KEY, 0))
    assert len(keys(tmp_path)) == 3
    assert acl.finalize() == 0
    assert keys(tmp_path) == []
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.rt.free_physical(handle) == 107000
    assert ok(acl.rt.get_mem_info(1))[0] == ok(acl.rt.get_mem_info(1))[1]


# ---- memory between processes ----------------------------------------------------------------------------------------


def fetch(child: Child, name: str, expression: str) -> Any:
    """Let the child remember the first value of an answer, which must be a success."""
    value, ret = child(expression)
    assert ret == 0, child("acl.get_recent_err_msg()")
    child(f"globals().update({name}={value!r})")
    return value


@pytest.mark.parametrize("size", [100, 5000, 700_000, 5 << 20])
def test_two_processes_see_the_same_bytes(
    child: Child, files: Callable[[], list[str]], tmp_path: Path, size: int
) -> None:
    device(100)  # so that the exported one does not begin its chunk
    ptr = device(size)
    write(ptr, b"from the parent"[:size])
    key = ok(acl.rt.ipc_mem_get_export_key(ptr, size, KEY, 0))
    assert isinstance(key, str) and 0 < len(key.encode()) < KEY
    assert read(ptr, 15) == b"from the parent"
    ok(acl.rt.ipc_mem_set_import_pid(key, [child.pid]))
    fetch(child, "p", f"acl.rt.ipc_mem_import_by_key({key!r}, 0)")
    assert child("acl.util.ptr_to_bytes(p, 15)") == b"from the parent"
    assert child("acl.rt.pointer_get_attributes(p)[0]['location']['type']") == 1
    assert child(f"acl.rt.memset(p + {size - 4}, 4, 0x41, 4)") == 0
    assert read(ptr + size - 4, 4) == b"AAAA"
    write(ptr, b"again")
    assert child("acl.util.ptr_to_bytes(p, 5)") == b"again"
    assert child(f"acl.rt.memset(p, {size + 64}, 0, {size + 64})") == 107000
    assert child("acl.rt.free(p)") == 107000
    assert "ipc_mem_close" in child("acl.get_recent_err_msg()")
    assert child(f"acl.rt.ipc_mem_close({key!r})") == 0
    assert child("acl.rt.memset(p, 1, 0, 1)") == 107000
    ok(acl.rt.ipc_mem_close(key))
    assert keys(tmp_path) == []
    ok(acl.rt.free(ptr))
    ok(acl.finalize())


def test_strict_mode_knows_the_size_of_imported_memory(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    other = Child().start()
    device(100)
    ptr = device(1000)
    key = ok(acl.rt.ipc_mem_get_export_key(ptr, 1000, KEY, 1))
    fetch(other, "p", f"acl.rt.ipc_mem_import_by_key({key!r}, 0)")
    assert other("acl.rt.memset(p, 1000, 0, 1000)") == 0
    assert other("acl.rt.memset(p, 1001, 0, 1001)") == 107000
    assert "the 1000-byte imported allocation" in other("acl.get_recent_err_msg()")
    assert other("acl.rt.memset(p - 64, 8, 0, 8)") == 107000
    other.kill()


def test_a_part_of_an_allocation_can_be_shared(child: Child) -> None:
    ptr = device(10_000)
    ok(acl.rt.memset(ptr, 10_000, 0, 10_000))
    write(ptr + 3000, b"middle")
    key = ok(acl.rt.ipc_mem_get_export_key(ptr + 3000, 6, KEY, 1))
    fetch(child, "p", f"acl.rt.ipc_mem_import_by_key({key!r}, 1)")
    assert child("acl.util.ptr_to_bytes(p, 6)") == b"middle"
    assert child("acl.rt.memset(p, 7, 0, 7)") == 107000


def test_processes_that_are_not_named_may_not_import(child: Child) -> None:
    ptr = device(1000)
    key = ok(acl.rt.ipc_mem_get_export_key(ptr, 1000, KEY, 0))
    assert child(f"acl.rt.ipc_mem_import_by_key({key!r}, 0)") == (0, 207006)
    assert str(child.pid) in child("acl.get_recent_err_msg()")
    ok(acl.rt.ipc_mem_set_import_pid(key, [1, 2]))
    assert child(f"acl.rt.ipc_mem_import_by_key({key!r}, 0)") == (0, 207006)
    assert child(f"acl.rt.ipc_mem_set_import_pid({key!r}, [{child.pid}])") == 207006  # only the exporter may
    ok(acl.rt.ipc_mem_set_import_pid(key, [child.pid]))
    fetch(child, "p", f"acl.rt.ipc_mem_import_by_key({key!r}, 0)")
    assert child(f"acl.rt.ipc_mem_import_by_key({key!r}, 0)") == (0, 107000)


def test_the_check_of_processes_can_be_switched_off(child: Child) -> None:
    key = ok(acl.rt.ipc_mem_get_export_key(device(1000), 1000, KEY, 1))
    fetch(child, "p", f"acl.rt.ipc_mem_import_by_key({key!r}, 0)")
    assert child("acl.rt.memset(p, 1000, 0, 1000)") == 0


def test_neighbours_in_one_chunk_are_shared_one_by_one(child: Child) -> None:
    pointers = [device(1000) for _ in range(6)]
    for number, ptr in enumerate(pointers):
        ok(acl.rt.memset(ptr, 1000, number, 1000))
    exported = {number: ok(acl.rt.ipc_mem_get_export_key(pointers[number], 1000, KEY, 1)) for number in (1, 3, 4)}
    for number, key in exported.items():
        fetch(child, f"p{number}", f"acl.rt.ipc_mem_import_by_key({key!r}, 0)")
        assert child(f"acl.util.ptr_to_bytes(p{number}, 1000)") == bytes([number]) * 1000
    ok(acl.rt.free(pointers[3]))
    assert child(f"acl.rt.ipc_mem_close({exported[3]!r})") == 0
    assert child(f"acl.rt.ipc_mem_import_by_key({exported[3]!r}, 0)") == (0, 107000)  # freed: no longer to be had
    assert child("acl.rt.memset(p4, 1000, 99, 1000)") == 0
    assert [read(pointers[number], 2)[0] for number in (0, 1, 2, 4, 5)] == [0, 1, 2, 99, 5]


def test_a_closed_key_is_unknown(child: Child) -> None:
    ptr = device(1000)
    key = ok(acl.rt.ipc_mem_get_export_key(ptr, 1000, KEY, 1))
    second = ok(acl.rt.ipc_mem_get_export_key(ptr, 1000, KEY, 1))
    assert key != second
    ok(acl.rt.ipc_mem_close(key))
    assert acl.rt.ipc_mem_close(key) == 107000
    assert child(f"acl.rt.ipc_mem_import_by_key({key!r}, 0)") == (0, 107000)
    assert acl.rt.ipc_mem_set_import_pid(key, [1]) == 107000
    fetch(child, "p", f"acl.rt.ipc_mem_import_by_key({second!r}, 0)")


def test_freed_memory_cannot_be_imported_any_longer(child: Child, tmp_path: Path) -> None:
    ptr = device(3 << 20)
    key = ok(acl.rt.ipc_mem_get_export_key(ptr, 1000, KEY, 1))
    fetch(child, "p", f"acl.rt.ipc_mem_import_by_key({key!r}, 0)")
    ok(acl.rt.memset(ptr, 1000, 1, 1000))
    ok(acl.rt.free(ptr))
    assert keys(tmp_path) == []
    again = [device(3 << 20) for _ in range(10)]
    for one in again:
        ok(acl.rt.memset(one, 1000, 2, 1000))
    assert child("acl.util.ptr_to_bytes(p, 4)") == b"\1\1\1\1"  # nobody writes into what it holds


def test_the_importer_keeps_what_it_has_when_the_exporter_is_killed(runtime: None, tmp_path: Path) -> None:
    exporter = Child().start()
    fetch(exporter, "p", "acl.rt.malloc(3000, 0)")
    exporter("acl.rt.memset(p, 3000, 0x42, 3000)")
    key = fetch(exporter, "k", f"acl.rt.ipc_mem_get_export_key(p, 3000, {KEY}, 1)")
    other = fetch(exporter, "j", f"acl.rt.ipc_mem_get_export_key(p, 100, {KEY}, 1)")
    ptr = ok(acl.rt.ipc_mem_import_by_key(key, 0))
    exporter.kill()
    assert read(ptr, 3000) == b"\x42" * 3000
    ok(acl.rt.memset(ptr, 3000, 1, 3000))
    assert acl.rt.ipc_mem_import_by_key(other, 0) == (0, 507022)
    assert "must be alive" in message()
    assert acl.rt.ipc_mem_import_by_key(other, 0)[1] in (107000, 507022)
    ok(acl.rt.ipc_mem_close(key))
    assert acl.rt.memset(ptr, 1, 0, 1) == 107000


def test_reset_device_ends_imports_and_exports(child: Child, tmp_path: Path) -> None:
    fetch(child, "p", "acl.rt.malloc(3 << 20, 0)")
    child("acl.rt.memset(p, 3 << 20, 0x42, 3 << 20)")
    key = fetch(child, "k", f"acl.rt.ipc_mem_get_export_key(p, 1000, {KEY}, 1)")
    ok(acl.rt.ipc_mem_import_by_key(key, 0))
    mine = ok(acl.rt.ipc_mem_get_export_key(device(100), 100, KEY, 1))
    ok(acl.rt.reset_device(0))
    ok(acl.rt.set_device(0))
    assert ok(acl.rt.get_mem_info(1))[1] - free_bytes() == (3 << 20) + 32  # what the child uses
    assert [path.stem for path in keys(tmp_path)] == [key]
    assert acl.rt.ipc_mem_close(mine) == 107000
    for _ in range(20):
        ptr = device(3 << 20)
        ok(acl.rt.memset(ptr, 3 << 20, 0x55, 3 << 20))
    assert child("acl.util.ptr_to_bytes(p, 3 << 20) == b'B' * (3 << 20)")


def test_exports_are_checked(runtime: None) -> None:
    ptr, host = device(1000), ok(acl.rt.malloc_host(1000))
    assert acl.rt.ipc_mem_get_export_key(0, 1000, KEY, 0) == ("", 100000)
    assert acl.rt.ipc_mem_get_export_key(ptr, 0, KEY, 0) == ("", 100000)
    assert acl.rt.ipc_mem_get_export_key(ptr, 1000, KEY, 2) == ("", 100000)
    assert acl.rt.ipc_mem_get_export_key(ptr, 1000, 64, 0) == ("", 107000)
    assert acl.rt.ipc_mem_get_export_key(ptr, 5000, KEY, 0) == ("", 107000)
    assert acl.rt.ipc_mem_get_export_key(host, 1000, KEY, 0) == ("", 107000)
    assert acl.rt.ipc_mem_get_export_key(id(ptr), 8, KEY, 0) == ("", 107000)
    for length in (1024, 4096, -1):
        with pytest.raises(ValueError, match="1024"):
            acl.rt.ipc_mem_get_export_key(ptr, 1000, length, 0)
    ok(acl.rt.ipc_mem_get_export_key(ptr, 1000, 1023, 0))
    assert in_thread(lambda: acl.rt.ipc_mem_get_export_key(ptr, 1000, KEY, 0)) == ("", 107002)


@pytest.mark.parametrize(
    "key", ["", "x", "../secret", "softnpu-" + "0" * 32, "softnpu-" + "g" * 32, "/etc/passwd", "é" * 40]
)
def test_keys_that_are_none(runtime: None, key: str) -> None:
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (0, 107000)
    assert acl.rt.ipc_mem_close(key) == 107000
    assert acl.rt.ipc_mem_set_import_pid(key, [1]) == 107000
    assert acl.rt.notify_import_by_key(key, 0) == (0, 107000)


def test_arguments_of_the_import_calls_are_checked(runtime: None) -> None:
    key = ok(acl.rt.ipc_mem_get_export_key(device(1000), 1000, KEY, 0))
    assert acl.rt.ipc_mem_import_by_key(key, 2) == (0, 100000)
    assert in_thread(lambda: acl.rt.ipc_mem_import_by_key(key, 0)) == (0, 107002)
    assert acl.rt.notify_import_by_key(key, 0) == (0, 107000)  # a key of memory
    assert acl.rt.ipc_mem_set_import_pid(key, [-1]) == 107000
    for wrong in (None, 5, (1,), "1"):
        with pytest.raises(TypeError, match="argument 1 is not list"):
            acl.rt.ipc_mem_set_import_pid(key, wrong)
    with pytest.raises(TypeError, match="the list argument is not list of int"):
        acl.rt.ipc_mem_set_import_pid(key, ["1"])
    for wrong in (None, b"key", 5, "a\0b"):
        with pytest.raises(TypeError, match="ipc_mem_import_by_key args parse failed"):
            acl.rt.ipc_mem_import_by_key(wrong, 0)


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "empty": lambda _: "",
    "no json": lambda _: "{",
    "deep": lambda _: "[" * 100_000,
    "binary": lambda _: "\udc80\udc81",
    "list": lambda _: "[]",
    "number": lambda _: "5",
    "nothing inside": lambda _: "{}",
    "more inside": lambda o: o | {"extra": 1},
    **{f"no {name}": (lambda o, name=name: {k: v for k, v in o.items() if k != name}) for name in
       ("kind", "pid", "descriptors", "size", "offset", "allowed", "open")},
    "pid text": lambda o: o | {"pid": "1"},
    "pid negative": lambda o: o | {"pid": -1},
    "pid huge": lambda o: o | {"pid": 1 << 70},
    "other pid": lambda o: o | {"pid": 1},
    "no descriptors": lambda o: o | {"descriptors": []},
    "descriptors text": lambda o: o | {"descriptors": "ab"},
    "descriptor negative": lambda o: o | {"descriptors": [[-1, 5]]},
    "descriptor huge": lambda o: o | {"descriptors": [[1 << 80, 5]]},
    "descriptor of something else": lambda o: o | {"descriptors": [[0, o["descriptors"][0][1]]]},
    "other inode": lambda o: o | {"descriptors": [[o["descriptors"][0][0], 12345]]},
    "three numbers": lambda o: o | {"descriptors": [[1, 2, 3]]},
    "size zero": lambda o: o | {"size": 0},
    "size beyond": lambda o: o | {"size": 3 << 20},
    "size huge": lambda o: o | {"size": 1 << 70},
    "size float": lambda o: o | {"size": 10.5},
    "offset beyond": lambda o: o | {"offset": 2 << 20},
    "offset negative": lambda o: o | {"offset": -64},
    "allowed text": lambda o: o | {"allowed": "all"},
    "open text": lambda o: o | {"open": "yes"},
    "another kind": lambda o: o | {"kind": "notify"},
}  # fmt: skip


def test_a_damaged_key_file_is_a_code(child: Child, tmp_path: Path) -> None:
    fetch(child, "p", "acl.rt.malloc(1000, 0)")
    key = fetch(child, "k", f"acl.rt.ipc_mem_get_export_key(p, 1000, {KEY}, 1)")
    (path,) = keys(tmp_path)
    sound = path.read_text()
    for name, damage in DAMAGES.items():
        changed = damage(json.loads(sound))
        path.write_text(changed if isinstance(changed, str) else json.dumps(changed), errors="surrogateescape")
        assert acl.rt.ipc_mem_import_by_key(key, 0) in ((0, 107000), (0, 507022)), name
        assert child("acl.rt.ipc_mem_set_import_pid(k, [1])") in (0, 107000, 207006), name
    path.write_text(sound)
    ok(acl.rt.memset(ok(acl.rt.ipc_mem_import_by_key(key, 0)), 1000, 0, 1000))


def test_a_key_file_that_cannot_be_read_or_written(child: Child, tmp_path: Path) -> None:
    fetch(child, "p", "acl.rt.malloc(1000, 0)")
    key = fetch(child, "k", f"acl.rt.ipc_mem_get_export_key(p, 1000, {KEY}, 1)")
    (path,) = keys(tmp_path)
    path.unlink()
    path.mkdir()
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (0, 107000)
    path.rmdir()
    path.symlink_to(tmp_path / "nowhere")
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (0, 107000)


def test_no_directory_for_keys(runtime: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOFTNPU_RUNTIME_DIR", str(tmp_path / "file"))
    assert acl.rt.ipc_mem_get_export_key(device(1000), 1000, KEY, 1) == ("", 507022)
    assert "SOFTNPU_RUNTIME_DIR" in message()


# ---- physical memory between processes -------------------------------------------------------------------------------


def test_physical_memory_is_shared_by_a_number(child: Child, files: Callable[[], list[str]]) -> None:
    vptr, handle = reserve(2 * GRANULE), physical(2 * GRANULE)
    ok(acl.rt.map_mem(vptr, 2 * GRANULE, 0, handle, 0))
    number = ok(acl.rt.mem_export_to_shareable_handle(handle, 1, 0))
    assert 0 < number < 1 << 64
    assert ok(acl.rt.mem_export_to_shareable_handle(handle, 1, 0)) == number
    assert child(f"acl.rt.mem_import_from_shareable_handle({number}, 0)") == (0, 207006)
    assert child(f"acl.rt.mem_set_pid_to_shareable_handle({number}, [{child.pid}])") == 207006
    ok(acl.rt.mem_set_pid_to_shareable_handle(number, [child.pid]))
    before = child("acl.rt.get_mem_info(1)[0]")
    fetch(child, "h", f"acl.rt.mem_import_from_shareable_handle({number}, 0)")
    assert child("acl.rt.get_mem_info(1)[0]") == before  # it is the exporter's memory
    fetch(child, "v", f"acl.rt.reserve_mem_address({2 * GRANULE}, 0, 0, 0)")
    assert child(f"acl.rt.map_mem(v, {2 * GRANULE}, 0, h, 0)") == 0
    assert child(f"acl.rt.memset(v + {GRANULE}, 100, 0x43, 100)") == 0
    assert read(vptr + GRANULE, 100) == b"C" * 100
    ok(acl.rt.unmap_mem(vptr))
    ok(acl.rt.free_physical(handle))
    assert child(f"acl.util.ptr_to_bytes(v + {GRANULE}, 3)") == b"CCC"
    assert child(f"acl.rt.mem_import_from_shareable_handle({number}, 0)") == (0, 107000)
    assert child("acl.rt.unmap_mem(v)") == 0
    assert child("acl.rt.free_physical(h)") == 0


def test_physical_memory_without_the_check_of_processes(child: Child) -> None:
    handle = physical()
    number = ok(acl.rt.mem_export_to_shareable_handle(handle, 1, 0))
    assert child(f"acl.rt.mem_import_from_shareable_handle({number}, 0)") == (0, 207006)
    assert ok(acl.rt.mem_export_to_shareable_handle(handle, 1, 1)) == number
    fetch(child, "h", f"acl.rt.mem_import_from_shareable_handle({number}, 0)")


def test_the_number_of_physical_memory_is_checked(child: Child, tmp_path: Path) -> None:
    handle = physical()
    assert acl.rt.mem_export_to_shareable_handle(handle, 2, 0) == (0, 207000)
    assert acl.rt.mem_export_to_shareable_handle(handle, 1, 2)[1] != 0
    assert acl.rt.mem_export_to_shareable_handle(0, 1, 0) == (0, 100000)
    number = ok(acl.rt.mem_export_to_shareable_handle(handle, 1, 1))
    assert child(f"acl.rt.mem_import_from_shareable_handle({number}, 99)") == (0, 107001)
    for wrong in (0, 1, number ^ 1, (1 << 64) - 1):
        assert child(f"acl.rt.mem_import_from_shareable_handle({wrong}, 0)") == (0, 107000)
        assert acl.rt.mem_set_pid_to_shareable_handle(wrong, [1]) == 107000
    (path,) = keys(tmp_path)
    offer = json.loads(path.read_text())
    for changed in ({"size": GRANULE + 1}, {"size": 64 * GRANULE}, {"size": 0}, {"kind": "memory"}):
        path.write_text(json.dumps(offer | changed))
        assert child(f"acl.rt.mem_import_from_shareable_handle({number}, 0)")[1] in (107000, 507022)


# ---- notifies between processes --------------------------------------------------------------------------------------

LIMIT = int(WAIT * 1000)


def share_notify(child: Child, notify: int) -> None:
    key = ok(acl.rt.notify_get_export_key(notify, KEY, 2))
    fetch(child, "n", f"acl.rt.notify_import_by_key({key!r}, 2)")


def test_a_notify_wakes_a_stream_of_another_process(child: Child) -> None:
    notify, stream = ok(acl.rt.create_notify(0)), ok(acl.rt.create_stream())
    share_notify(child, notify)
    for _ in range(3):
        ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
        assert acl.rt.synchronize_stream_with_timeout(stream, 20) == 507046
        assert child("acl.rt.record_notify(n, 0)") == 0
        ok(acl.rt.synchronize_stream_with_timeout(stream, LIMIT))
    assert child("acl.rt.wait_and_reset_notify(n, 0, 0)") == 0
    ok(acl.rt.record_notify(notify, stream))
    assert child(f"acl.rt.synchronize_stream_with_timeout(0, {LIMIT})") == 0


def test_a_record_before_the_export_is_not_lost(child: Child) -> None:
    notify = ok(acl.rt.create_notify(0))
    ok(acl.rt.record_notify(notify, 0))
    share_notify(child, notify)
    assert child("acl.rt.wait_and_reset_notify(n, 0, 5)") == 0
    assert child("acl.rt.synchronize_stream(0)") == 0


def test_a_stream_that_waits_already_when_the_notify_is_exported(child: Child) -> None:
    notify, stream = ok(acl.rt.create_notify(0)), ok(acl.rt.create_stream())
    ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
    assert acl.rt.synchronize_stream_with_timeout(stream, 20) == 507046
    share_notify(child, notify)
    assert child("acl.rt.record_notify(n, 0)") == 0
    ok(acl.rt.synchronize_stream_with_timeout(stream, LIMIT))


def test_processes_must_be_named_for_a_notify_too(child: Child, files: Callable[[], list[str]], tmp_path: Path) -> None:
    notify = ok(acl.rt.create_notify(0))
    assert acl.rt.notify_set_import_pid(notify, [child.pid]) == 107000  # not exported yet
    key = ok(acl.rt.notify_get_export_key(notify, KEY, 0))
    assert len(key.encode()) < KEY
    before = child("memory_files()")
    assert child(f"acl.rt.notify_import_by_key({key!r}, 0)") == (0, 207006)
    ok(acl.rt.notify_set_import_pid(notify, [child.pid]))
    fetch(child, "n", f"acl.rt.notify_import_by_key({key!r}, 0)")
    assert child("acl.rt.get_notify_id(n)[1]") == 0
    assert child("acl.rt.destroy_notify(n)") == 0
    assert child("memory_files()") == before
    ok(acl.rt.destroy_notify(notify))
    assert keys(tmp_path) == []
    assert child(f"acl.rt.notify_import_by_key({key!r}, 0)") == (0, 107000)


def test_exports_of_a_notify_are_checked(child: Child, tmp_path: Path) -> None:
    notify = ok(acl.rt.create_notify(0))
    assert acl.rt.notify_get_export_key(notify, 64, 0) == ("", 107000)
    assert acl.rt.notify_get_export_key(notify, KEY, 1) == ("", 100000)
    assert acl.rt.notify_get_export_key(0, KEY, 0) == ("", 100000)
    key = ok(acl.rt.notify_get_export_key(notify, KEY, 2))
    assert ok(acl.rt.notify_get_export_key(notify, KEY, 2)) == key
    assert child(f"acl.rt.notify_import_by_key({key!r}, 1)") == (0, 100000)
    assert child(f"acl.rt.ipc_mem_import_by_key({key!r}, 0)") == (0, 107000)
    (path,) = keys(tmp_path)
    offer = json.loads(path.read_text())
    for damaged in ("", "[]", json.dumps(offer | {"descriptors": [[0, 1]]}), json.dumps(offer | {"pid": 1})):
        path.write_text(damaged)
        assert child(f"acl.rt.notify_import_by_key({key!r}, 0)")[1] in (107000, 507022)
    path.write_text(json.dumps(offer))
    fetch(child, "n", f"acl.rt.notify_import_by_key({key!r}, 2)")


def test_failed_imports_of_a_notify_use_up_nothing(child: Child, tmp_path: Path) -> None:
    key = fetch(child, "k", f"acl.rt.notify_get_export_key(acl.rt.create_notify(0)[0], {KEY}, 2)")
    child.kill()
    used: list[int] = []
    while (made := acl.rt.create_notify(0))[1] == 0:
        used.append(made[0])
    for notify in used:
        ok(acl.rt.destroy_notify(notify))
    for _ in range(20):
        assert acl.rt.notify_import_by_key(key, 0)[1] in (107000, 507022)
    again: list[int] = []
    while (made := acl.rt.create_notify(0))[1] == 0:
        again.append(made[0])
    assert len(again) == len(used)


def test_the_waiting_side_survives_a_killed_recorder(child: Child) -> None:
    notify, stream = ok(acl.rt.create_notify(0)), ok(acl.rt.create_stream())
    share_notify(child, notify)
    ok(acl.rt.wait_and_reset_notify(notify, stream, 1))
    child.kill()
    assert acl.rt.synchronize_stream_with_timeout(stream, LIMIT) == 107019
    ok(acl.rt.record_notify(notify, stream))
    ok(acl.rt.wait_and_reset_notify(notify, stream, 5))
    ok(acl.rt.synchronize_stream_with_timeout(stream, LIMIT))


# ---- allocators ------------------------------------------------------------------------------------------------------


def test_custom_allocators_are_taken_and_never_called(runtime: None) -> None:
    def never(*_arguments: int) -> int:
        raise AssertionError("the published binding cannot call it")

    stream = ok(acl.rt.create_stream())
    desc = acl.rt.allocator_create_desc()
    assert acl.rt.allocator_register(stream, desc) == 100000
    ok(acl.rt.allocator_set_obj_to_desc(desc, 123))
    for setter in ("alloc", "free", "alloc_advise", "get_addr_from_block"):
        function = getattr(acl.rt, f"allocator_set_{setter}_func_to_desc")
        ok(function(desc, never))
        with pytest.raises(TypeError, match="parameter must be callable"):
            function(desc, 5)
        assert function(0, never) == 100000
    assert acl.rt.allocator_unregister(stream) == 100000
    ok(acl.rt.allocator_register(stream, desc))
    ok(acl.rt.allocator_destroy_desc(desc))
    ptr = device(100)
    ok(acl.rt.memset_async(ptr, 100, 0, 100, stream))
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.allocator_unregister(stream))
    assert acl.rt.allocator_destroy_desc(desc) == 107000
    assert ctypes.string_at(ptr, 100) == bytes(100)
