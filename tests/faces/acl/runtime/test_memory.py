"""acl.rt: allocation: sizes, alignment, capacity and codes."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy
import pytest

import acl
from tests.paths import SOURCE
from tests.support import in_thread, message, ok

HBM, DDR = 1, 0
MIB = 1 << 20
ALLOCATE: dict[str, Callable[[int], tuple[int, int]]] = {
    "malloc": lambda size: acl.rt.malloc(size, 0),
    "malloc_align32": lambda size: acl.rt.malloc_align32(size, 0),
    "malloc_cached": lambda size: acl.rt.malloc_cached(size, 0),
    "malloc_with_cfg": lambda size: acl.rt.malloc_with_cfg(size, 0, {}),
    "malloc_for_task_scheduler": lambda size: acl.rt.malloc_for_task_scheduler(size, 0, {}),
}
ALLOCATE_HOST: dict[str, Callable[[int], tuple[int, int]]] = {
    "malloc_host": lambda size: acl.rt.malloc_host(size),
    "malloc_host_with_cfg": lambda size: acl.rt.malloc_host_with_cfg(size, {}),
}
EVERY = ALLOCATE | ALLOCATE_HOST


def free_bytes() -> int:
    return int(ok(acl.rt.get_mem_info(HBM))[0])


def device_free(name: str) -> Callable[[int], int]:
    return acl.rt.free if name in ALLOCATE else acl.rt.free_host


# ---- size and place --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALLOCATE)
def test_sizes_are_rounded_as_the_manual_says(runtime: None, name: str) -> None:
    extra = 0 if name == "malloc_align32" else 32
    before = free_bytes()
    for size in (1, 31, 32, 33, 63, 64, 65, 1000, 4096, MIB - 64, MIB, MIB + 1, 5 * MIB + 7):
        ptr = ok(ALLOCATE[name](size))
        assert ptr % 64 == 0
        assert before - free_bytes() == -(-size // 32) * 32 + extra
        ok(acl.rt.free(ptr))
        assert free_bytes() == before


@pytest.mark.parametrize("name", EVERY)
def test_memory_is_real_memory_of_this_process(runtime: None, name: str) -> None:
    pointers = [ok(EVERY[name](1000)) for _ in range(40)]
    for number, ptr in enumerate(pointers):
        assert type(ptr) is int and ptr % 64 == 0
        ctypes.memset(ptr, number, 1000)
    for number, ptr in enumerate(pointers):
        assert ctypes.string_at(ptr, 1000) == bytes([number]) * 1000
        ok(device_free(name)(ptr))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("size", "code"), [(0, 100000), (-1, 207001), (1 << 62, 207001), (1 << 63, 207001), ((1 << 64) - 1, 207001)]
)
def test_absurd_sizes_are_refused(runtime: None, name: str, size: int, code: int) -> None:
    before = free_bytes()
    assert EVERY[name](size) == (0, code)
    assert f"acl.rt.{name} failed" in message()
    assert free_bytes() == before


def test_a_size_that_wraps_to_zero_is_zero(runtime: None) -> None:
    assert acl.rt.malloc(1 << 64, 0) == (0, 100000)
    ok(acl.rt.free(ok(acl.rt.malloc((1 << 64) + 8, 0))))


@pytest.mark.parametrize("policy", [*range(8), 0x100, 0x1000, 0x1002, 0x100000, 0x101003])
def test_every_policy_of_the_manual_is_taken(runtime: None, policy: int) -> None:
    ok(acl.rt.free(ok(acl.rt.malloc(100, policy))))


@pytest.mark.parametrize("policy", [-1, 8, 9, 0x200, 0x2000, -(1 << 31), (1 << 31) - 1])
def test_an_unknown_policy_is_named(runtime: None, policy: int) -> None:
    assert acl.rt.malloc(100, policy) == (0, 107018)
    assert f"policy {policy} " in message()


def test_numpy_integers_and_booleans_are_integers(runtime: None) -> None:
    ptr = ok(acl.rt.malloc(numpy.uint64(100), numpy.int32(2)))
    assert acl.rt.free(numpy.uint64(ptr)) == 0
    ok(acl.rt.free(ok(acl.rt.malloc(True, False))))


@pytest.mark.parametrize("size", [None, 1.0, "100", b"1", numpy.float32(3), [1]])
def test_what_is_no_integer_is_a_type_error(runtime: None, size: Any) -> None:
    with pytest.raises(TypeError, match=r"acl\.rt\.malloc args parse failed"):
        acl.rt.malloc(size, 0)
    with pytest.raises(TypeError, match=r"acl\.rt\.free args parse failed"):
        acl.rt.free(size)


# ---- who may allocate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALLOCATE)
def test_a_thread_without_a_context_gets_no_device_memory(runtime: None, name: str) -> None:
    assert in_thread(lambda: ALLOCATE[name](100)) == (0, 107002)
    assert in_thread(lambda: acl.rt.get_mem_info(HBM)) == (0, 0, 107002)


def test_any_thread_may_free(runtime: None) -> None:
    ptr, host = ok(acl.rt.malloc(100, 0)), ok(acl.rt.malloc_host(100))
    assert in_thread(lambda: acl.rt.free(ptr)) == 0
    assert in_thread(lambda: acl.rt.free_host(host)) == 0


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_allocated_before_init(fresh: None, name: str) -> None:
    assert EVERY[name](100) == (0, 100001)
    assert device_free(name)(0x1000) == 100001


def test_memory_belongs_to_the_device_of_the_current_context(runtime: None) -> None:
    first = free_bytes()
    ok(acl.rt.set_device(1))
    second = free_bytes()
    ptr = ok(acl.rt.malloc(1000, 0))
    assert second - free_bytes() == 1056
    assert ok(acl.rt.pointer_get_attributes(ptr))["location"] == {"id": 1, "type": 1}
    ok(acl.rt.set_device(0))
    assert free_bytes() == first
    ok(acl.rt.free(ptr))  # whichever device is current
    ok(acl.rt.set_device(1))
    assert free_bytes() == second


# ---- capacity --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A device of one mebibyte."""
    monkeypatch.setenv("SOFTNPU_MEMORY", "1M")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    yield MIB
    ok(acl.finalize())


def test_the_capacity_of_the_chip_is_the_limit(small: int) -> None:
    assert ok(acl.rt.get_mem_info(HBM)) == (small, small)
    assert acl.rt.malloc(small, 0) == (0, 207001)  # 32 bytes are added
    assert "1 MiB" in message()
    whole = ok(acl.rt.malloc(small - 32, 0))
    assert ok(acl.rt.get_mem_info(HBM)) == (0, small)
    assert acl.rt.malloc(1, 0) == (0, 207001)
    text = message()
    assert "device 0" in text and "1 live allocations" in text
    ok(acl.rt.free(whole))
    ok(acl.rt.free(ok(acl.rt.malloc_align32(small, 0))))


def test_many_small_allocations_reach_the_same_limit(small: int) -> None:
    pointers = []
    while True:
        ptr, ret = acl.rt.malloc(1, 0)
        if ret:
            break
        pointers.append(ptr)
    assert ret == 207001
    assert len(pointers) == len(set(pointers)) == small // 64
    for ptr in pointers:
        ok(acl.rt.free(ptr))
    assert free_bytes() == small


def test_host_memory_does_not_count(small: int) -> None:
    host = ok(acl.rt.malloc_host(4 * small))
    assert free_bytes() == small
    ok(acl.rt.free_host(host))


def test_devices_have_a_capacity_each(small: int) -> None:
    ok(acl.rt.malloc(small // 2, 0))
    ok(acl.rt.set_device(1))
    assert free_bytes() == small


def test_physical_memory_counts_against_the_same_capacity(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_MEMORY", "8M")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    prop = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}, "reserve": 0}
    handle = ok(acl.rt.malloc_physical(6 * MIB, prop, 0))
    assert free_bytes() == 2 * MIB
    assert acl.rt.malloc_physical(4 * MIB, prop, 0) == (0, 207001)
    assert acl.rt.malloc(3 * MIB, 0) == (0, 207001)
    ok(acl.rt.free_physical(handle))
    assert free_bytes() == 8 * MIB


def test_more_than_the_machine_has_needs_a_switch(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setenv("SOFTNPU_MEMORY", str(4 * machine))
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.rt.malloc(2 * machine, 0) == (0, 207001)
    assert "SOFTNPU_OVERCOMMIT=1" in message()
    assert acl.rt.malloc_host(2 * machine) == (0, 207001)
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_OVERCOMMIT", "1")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.rt.free(ok(acl.rt.malloc(2 * machine, 0))))


# ---- get_mem_info ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chip", "kind"), [("Ascend910B3", HBM), ("Ascend310P3", DDR)])
def test_memory_is_told_by_its_kind(fresh: None, monkeypatch: pytest.MonkeyPatch, chip: str, kind: int) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", chip)
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.rt.malloc(1000, 0))
    of_kind = {DDR: (0, 2, 3, 6, 7), HBM: (1, 4, 5, 8, 9, 10, 11)}
    for attr in range(18):
        free, total = ok(acl.rt.get_mem_info(attr))
        if attr in of_kind[1 - kind]:
            assert (free, total) == (0, 0)
        else:
            assert total > 8 << 30
            assert free == total - 1056
    ok(acl.finalize())


@pytest.mark.parametrize("attr", [-1, 18, 1000])
def test_an_unknown_kind_of_memory_is_refused(runtime: None, attr: int) -> None:
    assert acl.rt.get_mem_info(attr) == (0, 0, 100000)


NEIGHBOUR = """
import sys, acl
assert acl.init() == 0
assert acl.rt.set_device(1) == 0
ptr, ret = acl.rt.malloc(3 << 20, 0)
print("ready", flush=True)
sys.stdin.readline()
assert acl.rt.free(ptr) == 0
print("freed", flush=True)
sys.stdin.readline()
"""


def test_what_other_processes_use_is_not_free(runtime: None) -> None:
    ok(acl.rt.set_device(1))
    before = free_bytes()
    command = [sys.executable, "-c", NEIGHBOUR]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert before - free_bytes() == (3 << 20) + 32
        ok(acl.rt.set_device(0))
        assert free_bytes() == ok(acl.rt.get_mem_info(HBM))[1]
        ok(acl.rt.set_device(1))
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "freed\n"
        assert free_bytes() == before
        other.kill()
    assert free_bytes() == before


def test_a_killed_process_uses_nothing(runtime: None) -> None:
    ok(acl.rt.set_device(1))
    before = free_bytes()
    command = [sys.executable, "-c", NEIGHBOUR]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        assert free_bytes() < before
        other.kill()
        other.wait()
        assert free_bytes() == before


# ---- attributes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cfg",
    [
        {},
        {"numAttrs": 0, "attrs": []},
        {"numAttrs": 1, "attrs": [{"attr": 1, "value": {"moduleId": 3}}]},
        {"numAttrs": 2, "attrs": [{"attr": 2, "value": {"deviceId": 0}}, {"attr": 0, "value": {"rsv": 0}}]},
        {"numAttrs": 1, "attrs": [{"attr": 3, "value": {"rsv": [0] * 8}}]},
    ],
)
def test_configurations_of_the_manual_are_taken(runtime: None, cfg: dict[str, Any]) -> None:
    for call in (acl.rt.malloc_with_cfg, acl.rt.malloc_for_task_scheduler):
        ok(acl.rt.free(ok(call(100, 0, cfg))))
    ok(acl.rt.free_host(ok(acl.rt.malloc_host_with_cfg(100, cfg))))


@pytest.mark.parametrize(
    "cfg",
    [
        {"numAttrs": "1", "attrs": []},
        {"numAttrs": 1, "attrs": {}},
        {"numAttrs": 1, "attrs": [1]},
        {"numAttrs": 1, "attrs": [{"attr": [], "value": {}}]},
        {"numAttrs": 1, "attrs": [{"attr": "1", "value": {}}]},
        {"numAttrs": 1, "attrs": [{"attr": 1, "value": 3}]},
        {"numAttrs": 1, "attrs": [{"attr": 1, "value": {"moduleId": "3"}}]},
        {"numAttrs": 1, "attrs": [{}]},
    ],
)
def test_a_wrong_type_inside_a_configuration_is_a_value_error(runtime: None, cfg: dict[str, Any]) -> None:
    before = free_bytes()
    for call in (acl.rt.malloc_with_cfg, acl.rt.malloc_for_task_scheduler):
        with pytest.raises(ValueError, match="attrs"):
            call(100, 0, cfg)
    with pytest.raises(ValueError, match="attrs"):
        acl.rt.malloc_host_with_cfg(100, cfg)
    assert free_bytes() == before


@pytest.mark.parametrize(
    "cfg",
    [
        {"numAttrs": 2, "attrs": []},
        {"numAttrs": 0, "attrs": [{"attr": 1, "value": {"moduleId": 3}}]},
        {"numAttrs": 1, "attrs": [{"attr": 4, "value": {}}]},
        {"numAttrs": 1, "attrs": [{"attr": -1, "value": {}}]},
    ],
)
def test_a_configuration_that_does_not_add_up_is_a_code(runtime: None, cfg: dict[str, Any]) -> None:
    assert acl.rt.malloc_with_cfg(100, 0, cfg) == (0, 100000)
    assert acl.rt.malloc_host_with_cfg(100, cfg) == (0, 100000)


@pytest.mark.parametrize("cfg", [None, [], 0, "{}"])
def test_a_configuration_that_is_no_dictionary_is_a_type_error(runtime: None, cfg: Any) -> None:
    with pytest.raises(TypeError, match="malloc_with_cfg args parse failed"):
        acl.rt.malloc_with_cfg(100, 0, cfg)
    with pytest.raises(TypeError, match="malloc_host_with_cfg args parse failed"):
        acl.rt.malloc_host_with_cfg(100, cfg)


# ---- what a pointer is -----------------------------------------------------------------------------------------------


def test_a_pointer_tells_where_it_lies(runtime: None) -> None:
    device, host = ok(acl.rt.malloc(1000, 0)), ok(acl.rt.malloc_host(1000))
    array = numpy.zeros(100)
    for ptr, kind in ((device, 1), (device + 999, 1), (host, 0), (host + 500, 0), (array.ctypes.data, 2)):
        found = ok(acl.rt.pointer_get_attributes(ptr))
        assert set(found) == {"location", "page_size", "rsv"}
        assert found["location"] == {"id": 0, "type": kind}
        assert found["page_size"] > 0
        assert found["rsv"] == [0, 0, 0, 0]


def test_no_pointer_has_no_attributes(runtime: None) -> None:
    assert acl.rt.pointer_get_attributes(0) == ({}, 100000)
    ptr = ok(acl.rt.malloc(777, 0))
    ok(acl.rt.free(ptr))
    assert acl.rt.pointer_get_attributes(ptr) == ({}, 107000)
    assert "777-byte" in message()
    stream = ok(acl.rt.create_stream())
    assert acl.rt.pointer_get_attributes(stream) == ({}, 107000)
    assert "is a stream handle" in message()


# ---- caches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["mem_flush", "mem_invalidate"])
def test_cache_calls_check_their_range(runtime: None, call: str) -> None:
    function = getattr(acl.rt, call)
    ptr = ok(acl.rt.malloc_cached(1000, 0))
    ctypes.memset(ptr, 3, 1000)
    assert function(ptr, 1000) == 0
    assert function(ptr + 100, 900) == 0
    assert ctypes.string_at(ptr, 1000) == b"\3" * 1000
    assert function(0, 1000) == 100000
    assert function(ptr, 0) == 100000
    assert function(ptr, 2000) == 107000
    assert "1000-byte" in message()
    short = bytes(10)
    assert function(acl.util.bytes_to_ptr(short), 1 << 40) == 107000
    ok(acl.rt.free(ptr))
    assert function(ptr, 1000) == 107000


# ---- host memory of the program --------------------------------------------------------------------------------------


def test_registered_host_memory_can_be_used_under_its_device_address(runtime: None) -> None:
    array = numpy.arange(1000, dtype=numpy.uint8)
    ptr = array.ctypes.data
    device = ok(acl.rt.host_register(ptr, array.nbytes, 0))
    assert acl.rt.host_get_device_pointer(ptr, 0) == (device, 0)
    assert ok(acl.rt.pointer_get_attributes(ptr))["location"]["type"] == 0
    target = ok(acl.rt.malloc(1000, 0))
    ok(acl.rt.memcpy(target, 1000, device, 1000, 3))
    assert ctypes.string_at(target, 1000) == array.tobytes()
    ok(acl.rt.host_unregister(ptr))
    assert acl.rt.host_get_device_pointer(ptr, 0) == (0, 507911)
    assert ok(acl.rt.pointer_get_attributes(ptr))["location"]["type"] == 2


def test_registering_twice_or_overlapping_is_refused(runtime: None) -> None:
    array = numpy.zeros(1000, numpy.uint8)
    ptr = array.ctypes.data
    ok(acl.rt.host_register(ptr + 100, 100, 0))
    for start, size in ((100, 100), (150, 10), (0, 101), (199, 1), (0, 1000)):
        assert acl.rt.host_register(ptr + start, size, 0) == (0, 507910)
        assert acl.rt.host_register_v2(ptr + start, size, 2) == 507910
    ok(acl.rt.host_register(ptr + 200, 50, 0))
    ok(acl.rt.host_register(ptr, 100, 0))
    for start in (0, 100, 200):
        ok(acl.rt.host_unregister(ptr + start))
    ok(acl.rt.host_register_v2(ptr, 1000, 0x10000002))
    ok(acl.rt.host_unregister(ptr))


def test_what_is_not_registered_cannot_be_unregistered(runtime: None) -> None:
    array = numpy.zeros(1000, numpy.uint8)
    ptr = array.ctypes.data
    assert acl.rt.host_unregister(0) == 100000
    assert acl.rt.host_unregister(ptr) == 507911
    ok(acl.rt.host_register(ptr, 1000, 8))
    assert acl.rt.host_unregister(ptr + 8) == 507911
    ok(acl.rt.host_unregister(ptr))
    assert acl.rt.host_unregister(ptr) == 507911


def test_registrations_are_checked(runtime: None) -> None:
    array = numpy.zeros(1000, numpy.uint8)
    ptr, device = array.ctypes.data, ok(acl.rt.malloc(555, 0))
    assert acl.rt.host_register(0, 10, 0) == (0, 100000)
    assert acl.rt.host_register(ptr, 0, 0) == (0, 100000)
    for kind in (1, 2, 3, 5, -1):
        assert acl.rt.host_register(ptr, 10, kind) == (0, 100000)
    for flag in (0, 1, 0x20, 0x80000000):
        assert acl.rt.host_register_v2(ptr, 10, flag) == 100000
    assert acl.rt.host_get_device_pointer(ptr, 1) == (0, 100000)
    assert acl.rt.host_register(0xDEADBEEF000, 10, 0) == (0, 107000)
    assert acl.rt.host_register(device, 100, 0) == (0, 107000)
    assert "555-byte device allocation" in message()
    assert in_thread(lambda: acl.rt.host_register(ptr, 10, 0)) == (0, 107002)


def test_registrations_end_with_finalize(runtime: None) -> None:
    array = numpy.zeros(1000, numpy.uint8)
    ok(acl.rt.host_register(array.ctypes.data, 1000, 0))
    ok(acl.finalize())
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.rt.host_unregister(array.ctypes.data) == 507911
    ok(acl.rt.host_register(array.ctypes.data, 1000, 0))


# ---- life cycles -----------------------------------------------------------------------------------------------------


def test_cycles_of_init_and_finalize_leave_nothing_behind(fresh: None) -> None:
    def cycle() -> None:
        ok(acl.init())
        ok(acl.rt.set_device(0))
        for size in (100, 5000, MIB, 8 * MIB):
            ctypes.memset(ok(acl.rt.malloc(size, 0)), 1, size)
            ctypes.memset(ok(acl.rt.malloc_host(size)), 1, size)
        ok(acl.finalize())

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def maps() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    for _ in range(3):
        cycle()
    memory, mappings = resident(), maps()
    for _ in range(20):
        cycle()
    assert resident() - memory < 16 * MIB
    assert maps() - mappings < 20


def test_threads_allocate_and_free_and_the_sum_is_right(runtime: None) -> None:
    before, context = free_bytes(), ok(acl.rt.get_context())
    answers: list[int] = []

    def life(seed: int) -> None:
        answers.append(acl.rt.set_context(context))
        chance = numpy.random.default_rng(seed)
        mine: list[int] = []
        for size in chance.integers(1, 200_000, 800).tolist():
            ptr, ret = acl.rt.malloc(size, 0)
            answers.append(ret)
            mine.append(ptr)
            if len(mine) > 20:
                answers.append(acl.rt.free(mine.pop(int(chance.integers(len(mine))))))
        answers.extend(acl.rt.free(ptr) for ptr in mine)

    threads = [threading.Thread(target=life, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) == {0}
    assert free_bytes() == before


class Interrupter:
    """Runs `destructor` before the n-th line of the runtime that is executed, as a garbage collection may."""

    def __init__(self, line: int, destructor: Callable[[], None]) -> None:
        self.left, self.destructor, self.done = line, destructor, False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Interrupter | None:
        name = frame.f_code.co_filename
        if not name.startswith((str(SOURCE / "softnpu"), str(SOURCE / "acl"), "<softnpu")):
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0 and not self.done:
                self.done = True
                sys.settrace(None)
                self.destructor()
        return self


def test_a_destructor_may_free_between_any_two_lines(runtime: None) -> None:
    before = free_bytes()
    stream = ok(acl.rt.create_stream())
    for line in range(2000):
        owned = [ok(acl.rt.malloc(size, 0)) for size in (100, 3 * MIB, 3 * MIB)]
        host = ok(acl.rt.malloc_host(100))
        answers: list[int] = []

        def destructor(owned: list[int] = owned, host: int = host, answers: list[int] = answers) -> None:
            answers.extend(acl.rt.free(ptr) for ptr in owned)
            answers.append(acl.rt.free_host(host))
            ptr, ret = acl.rt.malloc(100, 0)
            answers.extend((ret, acl.rt.memcpy(ptr, 100, acl.util.bytes_to_ptr(bytes(100)), 100, 1), acl.rt.free(ptr)))

        interrupter = Interrupter(line, destructor)
        data = bytes(range(100))
        sys.settrace(interrupter)
        try:
            ptr, ret = acl.rt.malloc(100, 0)
            large, second = acl.rt.malloc(3 * MIB, 0)
            third = acl.rt.memcpy(ptr, 100, acl.util.bytes_to_ptr(data), 100, 1)
            fourth = acl.rt.memcpy_async(large, 100, ptr, 100, 3, stream)
            fifth = acl.rt.synchronize_stream(stream)
            sixth = acl.rt.free(ptr)
        finally:
            sys.settrace(None)
        assert (ret, second, third, fourth, fifth, sixth) == (0,) * 6
        assert ctypes.string_at(large, 100) == data
        ok(acl.rt.free(large))
        if not interrupter.done:
            assert line > 100
            for one in owned:
                ok(acl.rt.free(one))
            ok(acl.rt.free_host(host))
            break
        assert answers == [0] * 7
        assert free_bytes() == before
    else:
        raise AssertionError("the lines never ended")
    assert free_bytes() == before


class Owner:
    """Garbage in a cycle that holds device memory, as objects of real programs do."""

    def __init__(self) -> None:
        self.ptr, self.me = ok(acl.rt.malloc(1000, 0)), self

    def __del__(self) -> None:
        acl.rt.free(self.ptr)


def test_collected_objects_free_their_memory(runtime: None) -> None:
    before, thresholds = free_bytes(), gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(500):
            Owner()
            ok(acl.rt.free(ok(acl.rt.malloc(2000, 0))))
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert free_bytes() == before
