"""The checker: each misuse is its documented code and a sentence that names the allocation and the remedy."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import acl
from tests.paths import SOURCE
from tests.support import in_thread, message, ok

MIB = 1 << 20
H2H, H2D, D2H, D2D, DEFAULT = range(5)
INVALID, STALE, UNINITIALISED, UNALIGNED = 100000, 107000, 100001, 107008
SIZES = [1, 100, 5000, 300_000, MIB - 40, MIB, 9 * MIB]
GRANULE = 2 * MIB


@pytest.fixture(params=["", "trace", "strict"])
def mode(request: pytest.FixtureRequest, fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A runtime with SOFTNPU_CHECK set to each of its ways."""
    start(request.param, monkeypatch)
    yield request.param
    finish()


@pytest.fixture
def strict(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    start("strict", monkeypatch)
    yield
    finish()


def start(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_CHECK", mode)
    acl.get_recent_err_msg()  # what other tests left behind
    ok(acl.init())
    ok(acl.rt.set_device(0))


def finish() -> None:
    standard_error = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # the leaks of these tests are meant
    try:
        assert acl.finalize() in (0, 100037)
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(null)


def complaint(mode: str, size: int, kind: str = "device") -> str:
    """The sentence of the last failure, which must name the allocation, the remedy, and in trace mode the line."""
    text = message()
    assert f"the {size}-byte {kind} allocation" in text
    assert "Solution: " in text
    assert (f"made at {__file__}:" in text) == (mode != "")
    return text


def device(size: int) -> int:
    return int(ok(acl.rt.malloc(size, 0)))


def host(size: int) -> int:
    return int(ok(acl.rt.malloc_host(size)))


def free(kind: str) -> Callable[[int], int]:
    return acl.rt.free if kind == "device" else acl.rt.free_host


def make(kind: str, size: int) -> int:
    return device(size) if kind == "device" else host(size)


# ---- free ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["device", "host"])
def test_a_double_free_is_told(mode: str, kind: str, size: int) -> None:
    ptr = make(kind, size)
    ok(free(kind)(ptr))
    assert free(kind)(ptr) == STALE
    assert "freed already" in complaint(mode, size, kind)


@pytest.mark.parametrize("kind", ["device", "host"])
def test_every_one_of_many_is_noticed_when_it_is_freed_twice(mode: str, kind: str) -> None:
    pointers = [make(kind, 1000 + number) for number in range(60)]
    for ptr in pointers:
        ok(free(kind)(ptr))
    for number, ptr in enumerate(pointers):
        assert free(kind)(ptr) == STALE
        complaint(mode, 1000 + number, kind)


@pytest.mark.parametrize("kind", ["device", "host"])
@pytest.mark.parametrize("offset", [1, 64, 4999])
def test_freeing_the_inside_of_an_allocation(mode: str, kind: str, offset: int) -> None:
    ptr = make(kind, 5000)
    assert free(kind)(ptr + offset) == STALE
    assert f"lies {offset} bytes inside" in complaint(mode, 5000, kind)
    ok(free(kind)(ptr))


def test_device_memory_is_not_freed_as_host_memory_and_the_other_way_round(mode: str) -> None:
    on_device, on_host = device(700), host(800)
    assert acl.rt.free_host(on_device) == STALE
    assert "acl.rt.free." in complaint(mode, 700)
    assert acl.rt.free(on_host) == STALE
    assert "acl.rt.free_host" in complaint(mode, 800, "host")
    ctypes.memset(on_device, 1, 700)
    ok(acl.rt.free(on_device))
    ok(acl.rt.free_host(on_host))


@pytest.mark.parametrize("call", ["free", "free_host"])
def test_freeing_what_was_never_allocated(mode: str, call: str) -> None:
    array = numpy.zeros(1000)
    ptr = device(100)
    assert getattr(acl.rt, call)(0) == INVALID
    assert "null" in message()
    for address in (8, 0xDEADBEEF, array.ctypes.data, ptr + (64 << 20), (1 << 64) - 1):
        assert getattr(acl.rt, call)(address) == STALE
        text = message()
        assert f"{address:#x}" in text and "Solution: " in text


def test_reserved_addresses_are_not_freed_with_free(mode: str) -> None:
    vptr = ok(acl.rt.reserve_mem_address(GRANULE, 0, 0, 0))
    assert acl.rt.free(vptr) == STALE
    assert "release_mem_address" in complaint(mode, GRANULE, "virtual")
    ok(acl.rt.release_mem_address(vptr))
    assert acl.rt.release_mem_address(vptr) == STALE
    complaint(mode, GRANULE, "virtual")


# ---- use after free --------------------------------------------------------------------------------------------------


def descriptor(ptr: int, size: int) -> Any:
    desc = acl.create_tensor_desc(0, [1], 2)
    return acl.set_tensor_const(desc, ptr, size)


# Every call that looks at memory when it is called: (pointer, size) → answer.
USES: dict[str, Callable[[int, int], Any]] = {
    "memcpy to": lambda p, n: acl.rt.memcpy(p, n, device(n), n, D2D),
    "memcpy from": lambda p, n: acl.rt.memcpy(device(n), n, p, n, D2D),
    "memset": lambda p, n: acl.rt.memset(p, n, 0, n),
    "memcpy2d to": lambda p, n: acl.rt.memcpy2d(p, n, device(n), n, n, 1, D2D),
    "memcpy2d from": lambda p, n: acl.rt.memcpy2d(device(n), n, p, n, n, 1, D2D),
    "memcpy_async to": lambda p, n: acl.rt.memcpy_async(p, n, device(n), n, D2D, 0),
    "memcpy2d_async to": lambda p, n: acl.rt.memcpy2d_async(p, n, device(n), n, n, 1, D2D, 0),
    "memset_async": lambda p, n: acl.rt.memset_async(p, n, 0, n, 0),
    "host to buffer": lambda p, n: acl.rt.memcpy_async(device(n), n, p, n, 5, 0),
    "mem_flush": lambda p, n: acl.rt.mem_flush(p, n),
    "mem_invalidate": lambda p, n: acl.rt.mem_invalidate(p, n),
    "cmo_async": lambda p, n: acl.rt.cmo_async(p, n, 0, 0),
    "reduce to": lambda p, n: acl.rt.reduce_async(p, device(n), n, 10, 4, 0, 0),
    "reduce from": lambda p, n: acl.rt.reduce_async(device(n), p, n, 10, 4, 0, 0),
    "ipc_mem_get_export_key": lambda p, n: acl.rt.ipc_mem_get_export_key(p, n, 65, 0)[1],
    "set_tensor_const": descriptor,
}
WORDS: dict[str, Callable[[int], Any]] = {
    "value_write": lambda p: acl.rt.value_write(p, 1, 0, 0),
    "value_wait": lambda p: acl.rt.value_wait(p, 1, 0, 0),
    "set_memcpy_desc": lambda p: acl.rt.set_memcpy_desc(p, D2D, device(64), device(64), 64, 0)[1],
    "memcpy_async_with_desc": lambda p: acl.rt.memcpy_async_with_desc(p, D2D, 0),
    "get_overflow_status": lambda p: acl.rt.get_overflow_status(p, 64, 0),
    "pointer_get_attributes": lambda p: acl.rt.pointer_get_attributes(p)[1],
}


@pytest.mark.parametrize("size", [128, 2 * MIB])
@pytest.mark.parametrize("use", USES)
def test_use_after_free_is_told(mode: str, use: str, size: int) -> None:
    ptr = device(size)
    ok(acl.rt.free(ptr))
    assert USES[use](ptr, size) == STALE
    assert "freed already" in complaint(mode, size)


@pytest.mark.parametrize("use", WORDS)
def test_use_of_a_word_after_free(mode: str, use: str) -> None:
    ptr = device(128)
    ok(acl.rt.free(ptr))
    assert WORDS[use](ptr) == STALE
    assert "freed already" in complaint(mode, 128)


@pytest.mark.parametrize("look", ["ptr_to_bytes", "ptr_to_numpy"])
def test_looking_at_freed_memory_is_a_value_error(mode: str, look: str) -> None:
    ptr = device(999)
    ok(acl.rt.free(ptr))
    with pytest.raises(ValueError, match="999-byte device allocation"):
        acl.util.ptr_to_bytes(ptr, 9) if look == "ptr_to_bytes" else acl.util.ptr_to_numpy(ptr, (9,), 2)


def test_freed_by_reset_device(mode: str) -> None:
    ptr = device(4321)
    ok(acl.rt.reset_device(0))
    ok(acl.rt.set_device(0))
    calls: tuple[Callable[[], int], ...] = (
        lambda: acl.rt.free(ptr),
        lambda: acl.rt.memset(ptr, 1, 0, 1),
        lambda: acl.rt.memcpy(ptr, 1, host(1), 1, H2D),
    )
    for call in calls:
        assert call() == STALE
        assert "released by acl.rt.reset_device(0)" in complaint(mode, 4321)


def test_use_after_finalize_is_told(mode: str) -> None:
    on_device, on_host = device(111), host(222)
    stream, event = ok(acl.rt.create_stream()), ok(acl.rt.create_event())
    finish()
    calls: tuple[Callable[[], int], ...] = (
        lambda: acl.rt.free(on_device),
        lambda: acl.rt.free_host(on_host),
        lambda: acl.rt.memcpy(on_device, 10, on_host, 10, H2D),
        lambda: acl.rt.memset(on_device, 10, 0, 10),
        lambda: acl.rt.memcpy_async(on_device, 10, on_host, 10, H2D, stream),
        lambda: acl.rt.synchronize_stream(stream),
        lambda: acl.rt.destroy_stream(stream),
        lambda: acl.rt.record_event(event, 0),
        lambda: acl.rt.destroy_event(event),
        lambda: acl.rt.malloc(10, 0)[1],
        lambda: acl.rt.malloc_host(10)[1],
    )
    for call in calls:
        assert call() == UNINITIALISED
        assert "acl.finalize was called" in message()
    with pytest.raises(ValueError, match="111-byte device allocation"):
        acl.util.ptr_to_bytes(on_device, 10)
    assert acl.rt.mem_flush(on_host, 10) == STALE
    assert "released by acl.finalize" in complaint(mode, 222, "host")


def test_memory_of_before_finalize_is_stale_after_a_new_init(mode: str) -> None:
    ptr, stream = device(3 * MIB), ok(acl.rt.create_stream())
    finish()
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.rt.memset(ptr, 1, 0, 1) == STALE
    assert "released by acl.finalize" in complaint(mode, 3 * MIB)
    assert acl.rt.synchronize_stream(stream) == STALE
    assert "stream" in message()


# ---- out of range ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", USES)
def test_more_bytes_than_the_allocation_has(mode: str, use: str) -> None:
    ptr = device(1000)
    assert USES[use](ptr, 2048) == STALE
    text = message().splitlines()[0]
    assert "past the end of the 1000-byte device allocation" in text
    assert "2048 bytes reach 1048 bytes past" in text


@pytest.mark.parametrize("use", USES)
def test_an_offset_that_leads_out(mode: str, use: str) -> None:
    ptr = device(1000)
    assert USES[use](ptr + 960, 128) == STALE
    assert "at offset 960 reach 88 bytes past the end of" in complaint(mode, 1000)


def test_the_padding_of_the_manual_may_be_used_but_not_in_strict_mode(mode: str) -> None:
    ptr, other = device(100), device(1000)
    for count in (101, 160):
        expected = STALE if mode == "strict" else 0
        assert acl.rt.memcpy(ptr, count, other, count, D2D) == expected
        assert acl.rt.memcpy(other, count, ptr, count, D2D) == expected
    assert acl.rt.memcpy(ptr, 161, other, 161, D2D) == STALE
    assert "reach 61 bytes past" in complaint(mode, 100)
    assert acl.rt.memcpy(other, 161, ptr, 161, D2D) == STALE
    complaint(mode, 100)


def test_a_failed_copy_changes_nothing(mode: str) -> None:
    ptr, other = device(100), device(1000)
    ok(acl.rt.memset(ptr, 100, 7, 100))
    ok(acl.rt.memset(other, 1000, 8, 1000))
    assert acl.rt.memcpy(ptr, 500, other, 500, D2D) == STALE
    assert acl.util.ptr_to_bytes(ptr, 100) == b"\7" * 100


def test_host_memory_is_checked_as_device_memory_is(mode: str) -> None:
    on_host, on_device = host(1000), device(5000)
    assert acl.rt.memcpy(on_host, 5000, on_device, 5000, D2H) == STALE
    complaint(mode, 1000, "host")
    assert acl.rt.memcpy(on_device, 5000, on_host, 5000, H2D) == STALE
    complaint(mode, 1000, "host")
    assert acl.rt.memset(on_host, 5000, 0, 5000) == STALE
    complaint(mode, 1000, "host")


def test_writing_past_the_end_of_a_bytes_object_or_an_array_is_refused(mode: str) -> None:
    source, data, array = device(5000), bytes(1000), numpy.zeros(1000, numpy.uint8)
    for ptr in (acl.util.bytes_to_ptr(data), acl.util.numpy_contiguous_to_ptr(array)[0]):
        assert acl.rt.memcpy(ptr, 1001, source, 1001, D2H) == STALE
        assert "reach 1 bytes past the end of the bytes object or array" in message()
        assert acl.rt.memset(ptr, 5000, 0, 5000) == STALE
        assert acl.rt.memcpy(ptr, 1000, source, 1000, D2H) == 0


def test_pointers_between_allocations(mode: str) -> None:
    ptr = device(3 * MIB)
    beyond = ptr + 64 * MIB
    assert acl.rt.memset(beyond, 10, 0, 10) == STALE
    assert "address space of device 0, but nothing is allocated there" in message()
    assert acl.rt.memset(ptr + 3 * MIB + 100, 10, 0, 10) == STALE
    assert f"{ptr + 3 * MIB + 100:#x}" in message()


# ---- mixed up --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [H2H, H2D, D2H, D2D, 5])
def test_a_wrong_direction_is_tolerated_except_in_strict_mode(mode: str, kind: int) -> None:
    real = {"h": host(64), "d": device(64)}
    said = {H2H: "hh", H2D: "hd", D2H: "dh", D2D: "dd", 5: "hd"}[kind]
    for source, target in itertools.product("hd", "hd"):
        ctypes.memset(real[source], 1, 64)
        answer = acl.rt.memcpy(real[target], 64, real[source], 64, kind)
        if mode == "strict" and said != source + target:
            assert answer == STALE
            text = message()
            assert f"copy kind {kind} says" in text and "Solution: " in text
        else:
            assert answer == 0


def test_the_default_direction_is_right_in_every_mode(mode: str) -> None:
    pointers = (host(64), device(64))
    for source, target in itertools.product(pointers, pointers):
        assert acl.rt.memcpy(target, 64, source, 64, DEFAULT) == 0


def test_a_two_dimensional_copy_in_a_wrong_direction(strict: None) -> None:
    assert acl.rt.memcpy2d(device(64), 8, host(64), 8, 8, 8, D2H) == STALE
    assert "host to device" in message()
    assert acl.rt.memcpy2d(device(64), 8, host(64), 8, 8, 8, H2D) == 0


@pytest.fixture
def handles(mode: str) -> dict[str, int]:
    prop = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}, "reserve": 0}
    return {
        "context": ok(acl.rt.create_context(0)),
        "stream": ok(acl.rt.create_stream()),
        "event": ok(acl.rt.create_event()),
        "notify": ok(acl.rt.create_notify(0)),
        "tensor description": acl.create_tensor_desc(0, [1], 2),
        "data buffer": acl.create_data_buffer(0, 0),
        "dataset": acl.mdl.create_dataset(),
        "physical memory": ok(acl.rt.malloc_physical(GRANULE, prop, 0)),
        "allocator description": acl.rt.allocator_create_desc(),
    }


# For each kind a call with a code that needs a handle of this kind.
TAKES: dict[str, Callable[[int], int]] = {
    "context": acl.rt.set_context,
    "stream": acl.rt.synchronize_stream,
    "event": acl.rt.synchronize_event,
    "notify": lambda h: acl.rt.get_notify_id(h)[1],
    "tensor description": lambda h: acl.set_tensor_origin_format(h, 2),
    "data buffer": lambda h: acl.update_data_buffer(h, 0, 0),
    "dataset": acl.mdl.destroy_dataset,
    "physical memory": acl.rt.free_physical,
    "allocator description": acl.rt.allocator_destroy_desc,
}


def test_a_handle_of_a_wrong_kind(handles: dict[str, int]) -> None:
    for wanted, (passed, handle) in itertools.product(TAKES, handles.items()):
        if wanted == passed:
            continue
        assert TAKES[wanted](handle) == STALE, (wanted, passed)
        text = message()
        assert re.search(rf"is an? {passed} handle, an? {wanted} handle is needed here", text), text
    for kind, handle in handles.items():
        assert TAKES[kind](handle) == 0


def test_a_pointer_where_a_handle_is_needed(mode: str) -> None:
    ptr = device(12345)
    for wanted, call in TAKES.items():
        assert call(ptr + 5) == STALE, wanted
        assert f"is no {wanted}" in complaint(mode, 12345)
    ok(acl.rt.free(ptr))
    for call in TAKES.values():
        assert call(ptr) == STALE
        assert "which was freed" in complaint(mode, 12345)


def test_a_handle_where_a_pointer_is_needed(handles: dict[str, int]) -> None:
    for passed, handle in handles.items():
        for use in (*USES.values(), lambda p, _: acl.rt.free(p), lambda p, _: acl.rt.free_host(p)):
            assert use(handle, 64) == STALE
            text = message()
            assert re.search(rf"is an? {passed} handle and no address", text), text
        with pytest.raises(ValueError, match="no address"):
            acl.util.ptr_to_bytes(handle, 8)
    for kind, handle in handles.items():
        assert TAKES[kind](handle) == 0


def test_a_destroyed_handle_is_told(handles: dict[str, int]) -> None:
    destroy: dict[str, Callable[[int], Any]] = {
        "stream": acl.rt.destroy_stream,
        "event": acl.rt.destroy_event,
        "notify": acl.rt.destroy_notify,
        "tensor description": acl.destroy_tensor_desc,
        "data buffer": acl.destroy_data_buffer,
        "dataset": acl.mdl.destroy_dataset,
        "physical memory": acl.rt.free_physical,
        "allocator description": acl.rt.allocator_destroy_desc,
        "context": acl.rt.destroy_context,
    }
    for kind, call in destroy.items():
        assert call(handles[kind]) in (0, None)
    ok(acl.rt.set_device(0))
    for kind, call in TAKES.items():
        assert call(handles[kind]) == STALE, kind
        assert "destroyed already" in message()
    for kind, call in destroy.items():
        assert call(handles[kind]) == (None if kind == "tensor description" else STALE)
        assert "destroyed already" in message()


def test_null_handles_are_told_by_their_kind(mode: str) -> None:
    for kind, call in TAKES.items():
        if kind != "stream":
            assert call(0) == INVALID, kind
            assert f"the {kind}" in message()
    for call in (acl.rt.destroy_stream, acl.rt.destroy_event, acl.rt.destroy_notify, acl.destroy_data_buffer):
        assert call(0) == INVALID


# ---- alignment and content -------------------------------------------------------------------------------------------


def test_asynchronous_copies_need_aligned_addresses_in_strict_mode_only(mode: str) -> None:
    first, second = device(1000), device(1000)
    for target, source in ((first + 1, second), (first, second + 32), (first + 4, second + 4)):
        answer = acl.rt.memcpy_async(target, 100, source, 100, D2D, 0)
        assert answer == (UNALIGNED if mode == "strict" else 0)
        if answer:
            assert "multiple of 64" in message()
        assert acl.rt.memcpy(target, 100, source, 100, D2D) == 0  # synchronous copies need no alignment
    assert acl.rt.memcpy_async(first + 64, 100, second + 128, 100, D2D, 0) == 0
    ok(acl.rt.synchronize_stream(0))


def test_new_memory_is_not_zero_in_strict_mode(strict: None) -> None:
    ptr = device(1000)
    assert acl.util.ptr_to_bytes(ptr, 1000) == b"\xcd" * 1000


def test_reading_past_the_end_of_a_bytes_object_is_an_error_in_strict_mode(mode: str) -> None:
    data, target = b"x" * 1000, device(5000)
    answer = acl.rt.memcpy(target, 5000, acl.util.bytes_to_ptr(data), 5000, H2D)
    assert answer == (STALE if mode == "strict" else 0)
    if mode != "strict":
        assert acl.util.ptr_to_bytes(target, 1000) == data


def test_errors_of_one_thread_are_not_those_of_another(mode: str) -> None:
    ptr = device(64)
    ok(acl.rt.free(ptr))
    assert in_thread(lambda: acl.rt.free(ptr)) == STALE
    assert acl.get_recent_err_msg() is None
    assert acl.rt.free(ptr) == STALE
    assert acl.rt.peek_at_last_error(0) == STALE
    assert acl.rt.get_last_error(0) == STALE
    assert acl.rt.get_last_error(0) == 0
    complaint(mode, 64)
    assert acl.get_recent_err_msg() is None


def test_a_thread_id_is_no_pointer(handles: dict[str, int]) -> None:
    stop = threading.Event()
    tid, ret = acl.util.start_thread(lambda: stop.wait(20), None)
    assert ret == 0
    for address in (tid, tid - 64, tid + 64, threading.get_ident()):
        assert acl.rt.memset(address, 64, 0, 64) == STALE
        assert "thread" in message()
    stop.set()
    assert acl.util.stop_thread(tid) == 0


# ---- leaks -----------------------------------------------------------------------------------------------------------

LEAKY = """
import acl
acl.init()
acl.rt.set_device(0)
kept, _ = acl.rt.malloc(4242, 0)
freed, _ = acl.rt.malloc(5353, 0)
host, _ = acl.rt.malloc_host(6464)
stream, _ = acl.rt.create_stream()
desc = acl.create_tensor_desc(0, [1], 2)
buffer = acl.create_data_buffer(kept, 4242)
acl.create_data_buffer(kept, 42)
acl.rt.free(freed)
{clean}
print(acl.finalize())
"""
CLEAN = """
acl.rt.free(kept), acl.rt.free_host(host), acl.rt.destroy_stream(stream), acl.destroy_tensor_desc(desc)
acl.destroy_data_buffer(buffer), acl.destroy_data_buffer(buffer + 16)
"""


def leaks(tmp_path: Path, check: str | None, clean: str = "", program: str = LEAKY) -> str:
    path = tmp_path / "leaky.py"
    path.write_text(program.replace("{clean}", textwrap.dedent(clean)))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HOME": str(tmp_path), "SOFTNPU_RUNTIME_DIR": str(tmp_path)}
    environment |= {"SOFTNPU_CHECK": check} if check is not None else {}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    return done.stderr


@pytest.mark.parametrize("check", ["leaks", "leaks,trace", "strict", " leaks , strict "])
def test_leaks_are_reported_at_finalize(fresh: None, tmp_path: Path, check: str) -> None:
    text = leaks(tmp_path, check)
    assert "leaks at acl.finalize" in text and "2 allocations" in text
    assert "the 4242-byte device allocation" in text and "of device 0" in text
    assert "the 6464-byte host allocation" in text
    assert "5353" not in text
    assert "1 stream handle never destroyed" in text
    assert "1 tensor description handle never destroyed" in text
    assert "2 data buffer handles never destroyed" in text
    assert "context" not in text
    traced = check != "leaks"
    assert (f"made at {tmp_path / 'leaky.py'}:5" in text) == traced
    assert ("SOFTNPU_CHECK=leaks,trace" in text) == (not traced)


@pytest.mark.parametrize("check", [None, "", "trace"])
def test_leaks_are_not_reported_unless_asked(fresh: None, tmp_path: Path, check: str | None) -> None:
    assert leaks(tmp_path, check) == ""


@pytest.mark.parametrize("check", ["leaks", "strict"])
def test_a_clean_program_reports_nothing(fresh: None, tmp_path: Path, check: str) -> None:
    assert leaks(tmp_path, check, CLEAN) == ""


def test_the_last_reset_device_reports_what_it_frees(fresh: None, tmp_path: Path) -> None:
    text = leaks(tmp_path, "leaks", "acl.rt.set_device(0); acl.rt.reset_device(0); acl.rt.reset_device(0)")
    first, second = text.split("softnpu: leaks at acl.finalize")
    assert first.startswith("softnpu: leaks at acl.rt.reset_device(0): 4.143 KiB in 1 allocation\n")
    assert "4242-byte device" in first and "1 stream handle never destroyed" in first and "6464" not in first
    assert "6464-byte host" in second and "4242" not in second and "stream" not in second


def test_a_program_that_never_finalizes_is_told_at_exit(fresh: None, tmp_path: Path) -> None:
    text = leaks(tmp_path, "leaks", program=LEAKY.replace("print(acl.finalize())", "print(0)"))
    assert text.startswith("softnpu: leaks at exit, acl.finalize was never called: ") and "4242-byte device" in text


def test_a_long_list_of_leaks_is_cut(fresh: None, tmp_path: Path) -> None:
    program = """
import acl
acl.init()
acl.rt.set_device(0)
for size in range(1, 201):
    acl.rt.malloc(size, 0)
print(acl.finalize())
"""
    text = leaks(tmp_path, "leaks", program=program)
    assert "200 allocations" in text and "and 150 more" in text
    assert text.count("-byte device allocation") == 50


def test_reserved_and_physical_memory_leaks_too(fresh: None, tmp_path: Path) -> None:
    program = """
import acl
acl.init()
acl.rt.set_device(0)
acl.rt.reserve_mem_address(2 << 20, 0, 0, 0)
acl.rt.malloc_physical(2 << 20, {"location": {"id": 0, "type": 1}}, 0)
print(acl.finalize())
"""
    text = leaks(tmp_path, "leaks", program=program)
    assert "virtual allocation" in text and "1 physical memory handle never destroyed" in text


def test_a_wrong_value_of_the_switch_is_said(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_CHECK", "leaks,everything")
    assert acl.init() == INVALID
    assert "SOFTNPU_CHECK" in message()
