"""Streams: life, order, waiting, failures, attributes."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

import acl
from tests.support import WAIT, Hold, Reporter, in_thread, message, ok

INVALID_PARAM, BAD_VALUE, OTHER_CONTEXT, NOT_SUPPORTED = 100000, 107000, 107003, 207000
SYNC_TIMEOUT, STREAM_ABORT, NO_STREAM = 507046, 107023, 207008

pytestmark = pytest.mark.usefixtures("runtime")


def word() -> int:
    """Eight zero bytes of device memory."""
    pointer: int = ok(acl.rt.malloc(8, 0))
    ok(acl.rt.memset(pointer, 8, 0, 8))
    return pointer


def value(pointer: int) -> int:
    return int.from_bytes(acl.util.ptr_to_bytes(pointer, 8), "little")


def fail_on(stream: int) -> None:
    """A task that is accepted and fails when the stream reaches it: a copy within the host."""
    host = ok(acl.rt.malloc_host(64))
    ok(acl.rt.memcpy_async(host, 32, host + 32, 32, 0, stream))


# ---- life --------------------------------------------------------------------------------------------------------------


def test_create_and_destroy() -> None:
    stream = ok(acl.rt.create_stream())
    assert stream != 0
    ok(acl.rt.destroy_stream(stream))
    assert acl.rt.destroy_stream(stream) == BAD_VALUE
    assert "destroyed" in message()
    assert acl.rt.synchronize_stream(stream) == BAD_VALUE


def test_null_unknown_and_other_handles_are_no_streams() -> None:
    assert acl.rt.destroy_stream(0) == INVALID_PARAM, "0 is the default stream, which cannot be destroyed"
    assert acl.rt.destroy_stream_force(0) == INVALID_PARAM
    assert acl.rt.destroy_stream(0x1234) == BAD_VALUE
    assert acl.rt.synchronize_stream(0x1234) == BAD_VALUE
    event = ok(acl.rt.create_event())
    assert acl.rt.synchronize_stream(event) == BAD_VALUE
    assert "event handle" in message()


def test_destroy_waits_for_the_tasks() -> None:
    stream, pointer = ok(acl.rt.create_stream()), word()
    hold = Hold(stream)
    ok(acl.rt.value_write(pointer, 1, 0, stream))
    context = ok(acl.rt.get_context())
    entered = threading.Event()

    def destroy() -> int:
        ok(acl.rt.set_context(context))
        entered.set()
        return acl.rt.destroy_stream(stream)  # type: ignore[no-any-return]

    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(destroy()))
    thread.start()
    assert entered.wait(WAIT)
    hold.release()
    thread.join(WAIT)
    assert answers == [0] and value(pointer) == 1


def test_force_drops_the_tasks() -> None:
    stream, pointer = ok(acl.rt.create_stream()), word()
    Hold(stream)  # never released
    ok(acl.rt.value_write(pointer, 1, 0, stream))
    assert in_thread(lambda: acl.rt.destroy_stream_force(stream)) == 0
    assert value(pointer) == 0
    assert acl.rt.stream_query(stream) == (0, BAD_VALUE)


def test_two_threads_destroy_one_stream() -> None:
    context = ok(acl.rt.get_context())
    before = ok(acl.rt.get_stream_available_num())
    for _ in range(50):
        stream = ok(acl.rt.create_stream())
        gate = threading.Barrier(4)
        codes: list[int] = []

        def destroy(stream: int = stream, gate: threading.Barrier = gate, codes: list[int] = codes) -> None:
            ok(acl.rt.set_context(context))
            gate.wait(WAIT)
            codes.append(acl.rt.destroy_stream(stream))

        threads = [threading.Thread(target=destroy) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert sorted(codes) == [0, BAD_VALUE, BAD_VALUE, BAD_VALUE]
    assert ok(acl.rt.get_stream_available_num()) == before


def test_numbers_are_small_and_reused() -> None:
    streams = [ok(acl.rt.create_stream()) for _ in range(5)]
    numbers = [ok(acl.rt.stream_get_id(stream)) for stream in streams]
    assert len(set(numbers)) == 5 and max(numbers) < 10
    ok(acl.rt.destroy_stream(streams[2]))
    assert ok(acl.rt.stream_get_id(ok(acl.rt.create_stream()))) == numbers[2]


@pytest.mark.parametrize(("chip", "limit"), [("Ascend310B4", 512), ("Ascend310P3", 1024), ("Ascend910B3", 1984)])
def test_limit_of_the_chip(chip: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", chip)
    ok(acl.init())
    ok(acl.rt.set_device(0))
    left = ok(acl.rt.get_stream_available_num())
    assert left <= limit
    streams = [ok(acl.rt.create_stream()) for _ in range(left)]
    assert acl.rt.get_stream_available_num() == (0, 0)
    assert acl.rt.create_stream() == (0, NO_STREAM)
    assert str(limit) in message()
    ok(acl.rt.destroy_stream(streams[7]))
    ok(acl.rt.create_stream())


@pytest.mark.parametrize(("priority", "kept"), [(0, 0), (7, 7), (8, 7), (2**32 - 1, 7), (-1, 7)])
def test_priority_is_clamped(priority: int, kept: int) -> None:
    stream = ok(acl.rt.create_stream_with_config(priority, 0x3))
    assert ok(acl.rt.get_stream_attribute(stream, 5))["reserved"][0] == kept
    ok(acl.rt.synchronize_stream(stream))


def test_flags_of_streams_are_checked() -> None:
    for flag in (0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x3F):
        ok(acl.rt.destroy_stream(ok(acl.rt.create_stream_with_config(0, flag))))
    assert acl.rt.create_stream_with_config(0, 0x40) == (0, INVALID_PARAM)


# ---- order and waiting -------------------------------------------------------------------------------------------------


def test_tasks_run_in_the_order_of_submission() -> None:
    stream, pointer = ok(acl.rt.create_stream()), word()
    with Hold(stream):
        for number in range(1, 200):
            ok(acl.rt.value_write(pointer, number, 0, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert value(pointer) == 199


def test_streams_run_beside_each_other() -> None:
    slow, quick, pointer = ok(acl.rt.create_stream()), ok(acl.rt.create_stream()), word()
    with Hold(slow):
        ok(acl.rt.value_write(pointer, 1, 0, quick))
        ok(acl.rt.synchronize_stream_with_timeout(quick, 20_000))
        assert value(pointer) == 1
        assert acl.rt.stream_query(slow) == (1, 0)
        assert acl.rt.stream_query(quick) == (0, 0)
    ok(acl.rt.synchronize_stream(slow))
    assert acl.rt.stream_query(slow) == (0, 0)


def test_the_default_stream_works_in_order() -> None:
    pointer = word()
    with Hold(0):
        ok(acl.rt.value_write(pointer, 1, 0, 0))
        assert acl.rt.stream_query(0) == (1, 0)
        assert value(pointer) == 0
    ok(acl.rt.synchronize_stream(0))
    assert value(pointer) == 1


def test_synchronize_with_timeout() -> None:
    stream = ok(acl.rt.create_stream())
    assert [acl.rt.synchronize_stream_with_timeout(stream, bad) for bad in (0, -2, -(2**31))] == [BAD_VALUE] * 3
    assert "timeout" in message()
    ok(acl.rt.synchronize_stream_with_timeout(stream, -1))
    with Hold(stream):
        assert acl.rt.synchronize_stream_with_timeout(stream, 30) == SYNC_TIMEOUT
        assert message().startswith("EE1002")
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))


def test_synchronize_sees_all_tasks_sent_before() -> None:
    """A worker that has just taken a task is not idle: 3000 chances to return too early."""
    stream, pointer = ok(acl.rt.create_stream()), word()
    notify, other = ok(acl.rt.create_notify(0)), ok(acl.rt.create_stream())
    for number in range(1, 1000):
        ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
        ok(acl.rt.value_write(pointer, number, 0, stream))
        ok(acl.rt.record_notify(notify, other))
        ok(acl.rt.synchronize_stream(stream))
        assert value(pointer) == number


def test_many_threads_one_stream() -> None:
    context, stream = ok(acl.rt.get_context()), ok(acl.rt.create_stream())
    pointers = [word() for _ in range(4)]

    def work(pointer: int) -> None:
        ok(acl.rt.set_context(context))
        for number in range(1, 301):
            ok(acl.rt.value_write(pointer, number, 0, stream))
            if number % 50 == 0:
                ok(acl.rt.synchronize_stream(stream))
                assert value(pointer) == number

    failures: list[BaseException] = []

    def guarded(pointer: int) -> None:
        try:
            work(pointer)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(pointer,)) for pointer in pointers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not failures and [value(pointer) for pointer in pointers] == [300] * 4


def test_an_aborted_stream_drops_its_tasks() -> None:
    stream, pointer = ok(acl.rt.create_stream()), word()
    hold = Hold(stream)
    event = ok(acl.rt.create_event())
    ok(acl.rt.value_write(pointer, 1, 0, stream))
    ok(acl.rt.record_event(event, stream))
    ok(acl.rt.stream_abort(stream))
    assert acl.rt.synchronize_stream_with_timeout(stream, 20_000) in (0, STREAM_ABORT)
    assert value(pointer) == 0
    ok(acl.rt.synchronize_event_with_timeout(event, 20_000))  # nobody may wait for a dropped mark
    hold.release()
    ok(acl.rt.value_write(pointer, 2, 0, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert value(pointer) == 2


# ---- failures ----------------------------------------------------------------------------------------------------------


def test_an_asynchronous_failure_surfaces_at_synchronize() -> None:
    stream, pointer = ok(acl.rt.create_stream()), word()
    fail_on(stream)
    ok(acl.rt.value_write(pointer, 1, 0, stream))
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    assert "host-to-host" in message()
    assert value(pointer) == 1, "by default the stream goes on after a failed task"
    ok(acl.rt.synchronize_stream(stream))


def test_the_first_failure_is_told() -> None:
    stream, gone = ok(acl.rt.create_stream()), ok(acl.rt.malloc(64, 0))
    with Hold(stream):
        fail_on(stream)
        ok(acl.rt.memset_async(gone, 64, 1, 64, stream))
        ok(acl.rt.free(gone))
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    ok(acl.rt.synchronize_stream(stream))


def test_failures_stay_with_their_stream() -> None:
    bad, good = ok(acl.rt.create_stream()), ok(acl.rt.create_stream())
    fail_on(bad)
    ok(acl.rt.synchronize_stream(good))
    assert acl.rt.synchronize_stream(bad) == NOT_SUPPORTED


def test_a_stream_that_stops_on_failure_runs_nothing_more() -> None:
    stream, other, pointer = ok(acl.rt.create_stream()), ok(acl.rt.create_stream()), word()
    event = ok(acl.rt.create_event())
    ok(acl.rt.set_stream_failure_mode(stream, 1))
    assert acl.rt.set_stream_failure_mode(stream, 0) != 0, "once per stream"
    assert acl.rt.set_stream_failure_mode(stream, 2) != 0
    with Hold(stream):
        fail_on(stream)
        ok(acl.rt.value_write(pointer, 1, 0, stream))
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.stream_wait_event(other, event))
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    assert value(pointer) == 0
    ok(acl.rt.synchronize_event_with_timeout(event, 20_000))
    assert ok(acl.rt.get_stream_attribute(other, 1)) == {"failureMode": 1}, "it spreads to all streams of the context"


# ---- from inside a task ------------------------------------------------------------------------------------------------

INSIDE: dict[str, Callable[[int], Any]] = {
    "synchronize_stream": lambda stream: acl.rt.synchronize_stream(stream),
    "synchronize_stream_with_timeout": lambda stream: acl.rt.synchronize_stream_with_timeout(stream, -1),
    "synchronize_device": lambda _: acl.rt.synchronize_device(),
    "destroy_stream": lambda stream: acl.rt.destroy_stream(stream),
}


@pytest.mark.parametrize("call", INSIDE.values(), ids=INSIDE)
def test_a_blocking_callback_cannot_wait_for_its_own_stream(call: Callable[[int], Any]) -> None:
    stream, context = ok(acl.rt.create_stream()), ok(acl.rt.get_context())
    codes = []

    def callback(_: Any) -> None:
        ok(acl.rt.set_context(context))
        codes.append(call(stream))

    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        ok(acl.rt.launch_callback(callback, None, 1, stream))
        ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))
        assert codes == [BAD_VALUE]
        ok(acl.rt.unsubscribe_report(reporter.tid, stream))
    ok(acl.rt.destroy_stream(stream))


@pytest.mark.parametrize("call", INSIDE.values(), ids=INSIDE)
def test_an_exception_callback_cannot_wait_for_its_own_stream(call: Callable[[int], Any]) -> None:
    stream, context = ok(acl.rt.create_stream()), ok(acl.rt.get_context())
    codes = []

    def callback(_: int) -> None:
        ok(acl.rt.set_context(context))
        codes.append(call(stream))

    ok(acl.rt.set_exception_info_callback(callback))
    with Hold(stream):
        fail_on(stream)
    assert acl.rt.synchronize_stream_with_timeout(stream, 20_000) == NOT_SUPPORTED
    assert codes == [BAD_VALUE]


def test_calls_from_destructors_at_any_moment() -> None:
    """The collector may run a destructor inside any call; whatever it calls must neither hang nor spoil the call."""
    stream, context = ok(acl.rt.create_stream()), ok(acl.rt.get_context())
    codes: set[int] = set()

    class Owner:
        def __init__(self) -> None:
            self.me = self
            self.stream = ok(acl.rt.create_stream())
            self.pointer = ok(acl.rt.malloc(100, 0))

        def __del__(self) -> None:
            codes.add(acl.rt.synchronize_stream(stream))
            codes.add(acl.rt.memset_async(self.pointer, 100, 0, 100, stream))
            codes.add(acl.rt.free(self.pointer))
            codes.add(acl.rt.destroy_stream(self.stream))

    def work() -> int:
        ok(acl.rt.set_context(context))
        pointer = word()
        for number in range(300):
            Owner()
            event = ok(acl.rt.create_event())
            ok(acl.rt.record_event(event, stream))
            ok(acl.rt.value_write(pointer, number, 0, stream))
            ok(acl.rt.stream_wait_event(stream, event))
            if number % 20 == 0:
                Hold(stream).release()
            ok(acl.rt.destroy_event(event))
        return ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000)) or value(pointer)

    before = gc.get_threshold()
    gc.set_threshold(3)
    try:
        assert in_thread(work, limit=60) == 299
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert codes <= {0, BAD_VALUE, 107002}  # 107002: collected in a thread without a context


# ---- attributes --------------------------------------------------------------------------------------------------------


def test_the_overflow_switch_is_kept_and_checked() -> None:
    stream = ok(acl.rt.create_stream())
    assert acl.rt.get_stream_overflow_switch(stream) == (0, 0)
    ok(acl.rt.set_stream_overflow_switch(stream, 1))
    assert acl.rt.get_stream_overflow_switch(stream) == (1, 0)
    assert ok(acl.rt.get_stream_attribute(stream, 2)) == {"overflowSwitch": 1}
    assert acl.rt.set_stream_overflow_switch(stream, 2) == INVALID_PARAM


def test_attributes_of_streams_are_kept_and_checked() -> None:
    stream = ok(acl.rt.create_stream())
    for kind, key, number in ((1, "failureMode", 1), (2, "overflowSwitch", 1), (3, "userCustomTag", 77)):
        assert ok(acl.rt.get_stream_attribute(stream, kind)) == {key: 0}
        ok(acl.rt.set_stream_attribute(stream, kind, {key: number, "ignored": "key"}))
        assert ok(acl.rt.get_stream_attribute(stream, kind)) == {key: number}
    assert acl.rt.set_stream_attribute(stream, 2, {"overflowSwitch": 2}) == INVALID_PARAM
    assert acl.rt.set_stream_attribute(stream, 5, {"reserved": [0, 0, 0, 0]}) != 0
    assert acl.rt.get_stream_attribute(stream, 99) == ({}, INVALID_PARAM)
    assert acl.rt.set_stream_attribute(stream, 0, {"reserved": []}) == INVALID_PARAM


def test_a_stream_has_the_limits_of_its_device_until_it_has_its_own() -> None:
    stream = ok(acl.rt.create_stream())
    assert acl.rt.get_stream_res_limit(stream, 1) == (40, 0)
    ok(acl.rt.set_device_res_limit(0, 1, 30))
    assert acl.rt.get_stream_res_limit(stream, 1) == (30, 0), "the device's limit, while the stream has none"
    ok(acl.rt.set_stream_res_limit(stream, 1, 10))
    assert acl.rt.get_stream_res_limit(stream, 1) == (10, 0)
    assert acl.rt.get_res_in_current_thread(1) == (30, 0)
    ok(acl.rt.use_stream_res_in_current_thread(stream))
    assert acl.rt.get_res_in_current_thread(1) == (10, 0)
    assert acl.rt.get_res_in_current_thread(0) == (20, 0)
    ok(acl.rt.unuse_stream_res_in_current_thread(stream))
    assert acl.rt.get_res_in_current_thread(1) == (30, 0)
    ok(acl.rt.reset_stream_res_limit(stream))
    assert acl.rt.get_stream_res_limit(stream, 1) == (30, 0)
    assert acl.rt.set_stream_res_limit(stream, 0, 21) == INVALID_PARAM
    assert acl.rt.get_stream_res_limit(stream, 3) == (0, INVALID_PARAM)


# ---- the end of a context --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["destroy_context", "reset_device", "finalize"])
def test_work_that_was_sent_is_done_before_its_context_ends(end: str) -> None:
    """Nobody synchronised, yet the copies are not lost."""
    size, count = 4 << 20, 12
    data = bytes(range(256)) * (size // 256)
    targets = [bytearray(size) for _ in range(count)]
    context = ok(acl.rt.create_context(0)) if end == "destroy_context" else ok(acl.rt.get_context())
    stream = ok(acl.rt.create_stream())
    device = ok(acl.rt.malloc(size, 0))
    ok(acl.rt.memcpy(device, size, acl.util.bytes_to_ptr(data), size, 1))
    for target in targets:
        place = (ctypes.c_char * size).from_buffer(target)
        ok(acl.rt.memcpy_async(ctypes.addressof(place), size, device, size, 2, stream))
    ok(
        {
            "destroy_context": lambda: acl.rt.destroy_context(context),
            "reset_device": lambda: acl.rt.reset_device(0),
            "finalize": acl.finalize,
        }[end]()
    )
    assert all(target == data for target in targets)


def test_a_stream_that_only_waits_does_not_hold_its_context() -> None:
    context = ok(acl.rt.create_context(0))
    stream = ok(acl.rt.create_stream())
    ok(acl.rt.value_wait(word(), 1, 1, stream))
    assert in_thread(lambda: acl.rt.destroy_context(context), limit=20) == 0
