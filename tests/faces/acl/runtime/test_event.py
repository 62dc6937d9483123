"""Events: marks in streams, waits, times."""

from __future__ import annotations

import threading
import time

import pytest

import acl
from tests.support import WAIT, Hold, in_thread, message, ok

INVALID_PARAM, BAD_VALUE, OTHER_CONTEXT, NOT_SUPPORTED = 100000, 107000, 107003, 207000
NO_TIME, REVERSED, WAIT_TIMEOUT, NO_EVENT, SYNC_TIMEOUT = 107006, 107007, 107019, 207007, 507047
TIME_LINE = 0x8

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def stream() -> int:
    made: int = ok(acl.rt.create_stream())
    return made


@pytest.fixture
def event() -> int:
    made: int = ok(acl.rt.create_event())
    return made


def word() -> int:
    pointer: int = ok(acl.rt.malloc(8, 0))
    ok(acl.rt.memset(pointer, 8, 0, 8))
    return pointer


def value(pointer: int) -> int:
    return int.from_bytes(acl.util.ptr_to_bytes(pointer, 8), "little")


# ---- life --------------------------------------------------------------------------------------------------------------


def test_create_and_destroy(event: int) -> None:
    ok(acl.rt.destroy_event(event))
    assert acl.rt.destroy_event(event) == BAD_VALUE
    assert acl.rt.destroy_event(0) == INVALID_PARAM
    assert acl.rt.record_event(event, 0) == BAD_VALUE
    assert acl.rt.query_event_status(event) == (0, BAD_VALUE)


def test_flags_of_events_are_checked() -> None:
    for flag in (0x1, 0x2, 0x8, 0x10, 0x20, 0x40, 0x9):
        ok(acl.rt.destroy_event(ok(acl.rt.create_event_with_flag(flag))))
        ok(acl.rt.destroy_event(ok(acl.rt.create_event_ex_with_flag(flag))))
    for flag in (0, 0x80, 0x4):
        assert acl.rt.create_event_with_flag(flag) == (0, INVALID_PARAM)
        assert acl.rt.create_event_ex_with_flag(flag) == (0, INVALID_PARAM)


def test_limit_of_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend310P3")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.rt.get_event_avail_num() == (1023, 0)
    events = [ok(acl.rt.create_event()) for _ in range(1023)]
    assert acl.rt.get_event_avail_num() == (0, 0)
    assert acl.rt.create_event() == (0, NO_EVENT)
    assert acl.rt.create_event_with_flag(TIME_LINE) == (0, NO_EVENT)
    ok(acl.rt.create_event_ex_with_flag(TIME_LINE))  # this kind has no limit
    ok(acl.rt.destroy_event(events[0]))
    ok(acl.rt.create_event())


def test_events_have_different_numbers(event: int) -> None:
    other = ok(acl.rt.create_event())
    assert ok(acl.rt.get_event_id(event)) != ok(acl.rt.get_event_id(other))


def test_two_threads_destroy_one_event() -> None:
    before = ok(acl.rt.get_event_avail_num())
    for _ in range(100):
        event = ok(acl.rt.create_event())
        gate = threading.Barrier(3)
        codes: list[int] = []

        def destroy(event: int = event, gate: threading.Barrier = gate, codes: list[int] = codes) -> None:
            gate.wait(WAIT)
            codes.append(acl.rt.destroy_event(event))

        threads = [threading.Thread(target=destroy) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert sorted(codes) == [0, BAD_VALUE, BAD_VALUE]
    assert ok(acl.rt.get_event_avail_num()) == before


def test_an_event_stays_in_its_context(event: int) -> None:
    ok(acl.rt.create_context(0))
    other = ok(acl.rt.create_stream())
    assert acl.rt.record_event(event, other) == OTHER_CONTEXT
    assert acl.rt.stream_wait_event(other, event) == OTHER_CONTEXT


# ---- state -------------------------------------------------------------------------------------------------------------


def test_states_count_in_opposite_directions(event: int, stream: int) -> None:
    assert acl.rt.query_event_status(event) == (1, 0), "never recorded counts as complete"
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        assert acl.rt.query_event(event) == (1, 0)
        assert acl.rt.query_event_status(event) == (0, 0)
    ok(acl.rt.synchronize_event(event))
    assert acl.rt.query_event(event) == (0, 0)
    assert acl.rt.query_event_status(event) == (1, 0)


def test_recording_again_moves_the_mark(event: int, stream: int) -> None:
    ok(acl.rt.record_event(event, stream))
    ok(acl.rt.synchronize_event(event))
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        assert acl.rt.query_event_status(event) == (0, 0)
    ok(acl.rt.synchronize_event(event))


def test_synchronize_waits_for_the_mark_only(event: int, stream: int) -> None:
    pointer = word()
    hold = Hold(stream)
    ok(acl.rt.value_write(pointer, 1, 0, stream))
    ok(acl.rt.record_event(event, stream))
    second = Hold(stream)
    threading.Thread(target=in_context, args=(ok(acl.rt.get_context()), hold)).start()
    ok(acl.rt.synchronize_event(event))
    assert value(pointer) == 1
    assert acl.rt.stream_query(stream) == (1, 0), "what was sent after the mark still waits"
    second.release()


def in_context(context: int, hold: Hold) -> None:
    ok(acl.rt.set_context(context))
    hold.release()


def test_synchronize_with_timeout(event: int, stream: int) -> None:
    assert [acl.rt.synchronize_event_with_timeout(event, bad) for bad in (0, -2)] == [BAD_VALUE] * 2
    ok(acl.rt.synchronize_event_with_timeout(event, -1))
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        assert acl.rt.synchronize_event_with_timeout(event, 30) == SYNC_TIMEOUT
        assert "event" in message()
    ok(acl.rt.synchronize_event_with_timeout(event, 20_000))


def test_event_of_a_destroyed_stream(event: int, stream: int) -> None:
    Hold(stream)  # never released
    ok(acl.rt.record_event(event, stream))
    ok(acl.rt.destroy_stream_force(stream))
    assert in_thread(lambda: acl.rt.synchronize_event(event)) == 0


def test_destroying_an_event_that_others_wait_for(event: int, stream: int) -> None:
    other = ok(acl.rt.create_stream())
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.stream_wait_event(other, event))
        ok(acl.rt.destroy_event(event))
    ok(acl.rt.synchronize_stream_with_timeout(other, 20_000))


# ---- reset -------------------------------------------------------------------------------------------------------------


def test_only_flagged_events_can_be_reset(event: int, stream: int) -> None:
    for other in (event, ok(acl.rt.create_event_ex_with_flag(TIME_LINE))):
        ok(acl.rt.record_event(other, stream))
        assert acl.rt.reset_event(other, stream) != 0


def test_a_reset_event_has_no_time(stream: int) -> None:
    event = ok(acl.rt.create_event_with_flag(TIME_LINE))
    ok(acl.rt.record_event(event, stream))
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.event_get_timestamp(event))
    ok(acl.rt.reset_event(event, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert acl.rt.event_get_timestamp(event) == (0, NO_TIME), "it is as if never recorded"
    ok(acl.rt.record_event(event, stream))
    ok(acl.rt.synchronize_event(event))
    ok(acl.rt.event_get_timestamp(event))


def test_reset_in_stream_order_spares_a_later_mark(stream: int) -> None:
    event, other = ok(acl.rt.create_event_with_flag(TIME_LINE)), ok(acl.rt.create_stream())
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.reset_event(event, stream))
        ok(acl.rt.record_event(event, other))
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.event_get_timestamp(event))


def test_what_the_ex_kind_cannot_do(stream: int) -> None:
    event = ok(acl.rt.create_event_ex_with_flag(TIME_LINE))
    ok(acl.rt.record_event(event, stream))
    ok(acl.rt.synchronize_event(event))
    assert acl.rt.query_event_status(event) == (1, 0)
    assert acl.rt.query_event(event)[1] != 0
    assert acl.rt.query_event_wait_status(event)[1] != 0


# ---- streams wait ------------------------------------------------------------------------------------------------------


def test_a_stream_waits_for_another(event: int, stream: int) -> None:
    other, pointer = ok(acl.rt.create_stream()), word()
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.stream_wait_event(other, event))
        ok(acl.rt.value_write(pointer, 1, 0, other))
        assert acl.rt.synchronize_stream_with_timeout(other, 30) == 507046
        assert value(pointer) == 0
        assert acl.rt.query_event_wait_status(event) == (1, 0)
    ok(acl.rt.synchronize_stream(other))
    assert value(pointer) == 1
    assert acl.rt.query_event_wait_status(event) == (0, 0)


def test_waiting_for_what_was_never_recorded(event: int, stream: int) -> None:
    ok(acl.rt.stream_wait_event(stream, event))
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))


def test_a_wait_is_for_the_mark_of_that_moment(event: int, stream: int) -> None:
    """Recording again later does not make an earlier wait longer."""
    other, late = ok(acl.rt.create_stream()), ok(acl.rt.create_stream())
    ok(acl.rt.record_event(event, stream))
    ok(acl.rt.synchronize_event(event))
    ok(acl.rt.stream_wait_event(other, event))
    with Hold(late):
        ok(acl.rt.record_event(event, late))
        ok(acl.rt.synchronize_stream_with_timeout(other, 20_000))


def test_wait_status_after_an_abort(event: int, stream: int) -> None:
    other = ok(acl.rt.create_stream())
    blocked = Hold(other)
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.stream_wait_event(other, event))  # behind the hold: it has not begun
        assert acl.rt.query_event_wait_status(event) == (1, 0)
        ok(acl.rt.stream_abort(other))
        assert acl.rt.query_event_wait_status(event) == (0, 0), "a dropped wait is over"
    blocked.release()


def test_wait_status_after_a_failure_that_stops_the_stream(event: int, stream: int) -> None:
    other, host = ok(acl.rt.create_stream()), ok(acl.rt.malloc_host(64))
    ok(acl.rt.set_stream_failure_mode(other, 1))
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.memcpy_async(host, 32, host + 32, 32, 0, other))
        ok(acl.rt.stream_wait_event(other, event))
        assert acl.rt.synchronize_stream_with_timeout(other, 20_000) == NOT_SUPPORTED, (
            "a stopped stream waits for nothing"
        )
        assert acl.rt.query_event_wait_status(event) == (0, 0)


def test_a_wait_for_an_event_ends_after_its_timeout(event: int, stream: int) -> None:
    other = ok(acl.rt.create_stream())
    ok(acl.rt.set_op_wait_timeout(1))
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.stream_wait_event(other, event))
        assert acl.rt.synchronize_stream_with_timeout(other, 20_000) == WAIT_TIMEOUT
        assert "set_op_wait_timeout" in message()
        ok(acl.rt.set_op_wait_timeout(0))
        ok(acl.rt.stream_wait_event(other, event))
        assert acl.rt.synchronize_stream_with_timeout(other, 1200) == 507046, "0 means no limit"
    ok(acl.rt.synchronize_stream(other))


# ---- times -------------------------------------------------------------------------------------------------------------


def test_the_elapsed_time_is_that_between_two_records(stream: int) -> None:
    start, end = ok(acl.rt.create_event()), ok(acl.rt.create_event())
    hold = Hold(stream)
    ok(acl.rt.record_event(start, stream))
    first = time.monotonic()
    hold.release()
    ok(acl.rt.synchronize_event(start))
    second = Hold(stream)
    ok(acl.rt.record_event(end, stream))
    assert acl.rt.synchronize_event_with_timeout(end, 60) == SYNC_TIMEOUT  # 60 ms pass here
    second.release()
    ok(acl.rt.synchronize_event(end))
    outside = (time.monotonic() - first) * 1000
    elapsed = ok(acl.rt.event_elapsed_time(start, end))
    assert type(elapsed) is float
    assert 60 <= elapsed <= outside
    between = ok(acl.rt.event_get_timestamp(end)) - ok(acl.rt.event_get_timestamp(start))
    assert abs(between - elapsed * 1000) <= 2, "time stamps are microseconds of the same clock"
    assert acl.rt.event_elapsed_time(end, start) == (0.0, REVERSED)
    assert acl.rt.event_elapsed_time(start, start) == (0.0, 0)


def test_times_of_unfinished_events(event: int, stream: int) -> None:
    done = ok(acl.rt.create_event())
    ok(acl.rt.record_event(done, stream))
    ok(acl.rt.synchronize_event(done))
    assert acl.rt.event_elapsed_time(event, done) == (0.0, NO_TIME)
    assert acl.rt.event_get_timestamp(event) == (0, NO_TIME)
    with Hold(stream):
        ok(acl.rt.record_event(event, stream))
        assert acl.rt.event_elapsed_time(done, event) == (0.0, NO_TIME)
    assert acl.rt.event_elapsed_time(0, done) == (0.0, INVALID_PARAM)


def test_times_need_the_flag(stream: int) -> None:
    for create in (acl.rt.create_event_with_flag, acl.rt.create_event_ex_with_flag):
        plain, timed = ok(create(0x1)), ok(create(TIME_LINE | 0x1))
        for event in (plain, timed):
            ok(acl.rt.record_event(event, stream))
            ok(acl.rt.synchronize_event(event))
        assert acl.rt.event_elapsed_time(timed, timed) == (0.0, 0)
        assert acl.rt.event_elapsed_time(plain, timed)[1] != 0
