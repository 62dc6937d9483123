"""Callbacks of streams: subscribe, launch, process, unsubscribe."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

import acl
from tests.support import WAIT, Hold, Reporter, in_thread, message, ok

INVALID_PARAM, STREAM_SUBSCRIBE, THREAD_SUBSCRIBE, NO_CALLBACK = 100000, 107011, 107012, 107015
REPORT_TIMEOUT, SYNC_TIMEOUT = 507012, 507046
NO_BLOCK, BLOCK = 0, 1
LONG = int(WAIT * 1000)

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def stream() -> int:
    made: int = ok(acl.rt.create_stream())
    return made


def word() -> int:
    pointer: int = ok(acl.rt.malloc(8, 0))
    ok(acl.rt.memset(pointer, 8, 0, 8))
    return pointer


def value(pointer: int) -> int:
    return int.from_bytes(acl.util.ptr_to_bytes(pointer, 8), "little")


# ---- codes -------------------------------------------------------------------------------------------------------------


def test_launch_without_a_thread(stream: int) -> None:
    assert acl.rt.launch_callback(print, None, NO_BLOCK, stream) == NO_CALLBACK
    assert "subscribe_report" in message()
    assert acl.rt.launch_callback(print, None, BLOCK, 0) == NO_CALLBACK


def test_one_thread_per_stream(stream: int) -> None:
    me = threading.get_ident()
    ok(acl.rt.subscribe_report(me, stream))
    assert acl.rt.subscribe_report(me, stream) == STREAM_SUBSCRIBE
    assert acl.rt.subscribe_report(me + 1, stream) == STREAM_SUBSCRIBE
    assert acl.rt.unsubscribe_report(me + 1, stream) == THREAD_SUBSCRIBE
    ok(acl.rt.unsubscribe_report(me, stream))
    assert acl.rt.unsubscribe_report(me, stream) == THREAD_SUBSCRIBE
    assert acl.rt.launch_callback(print, None, NO_BLOCK, stream) == NO_CALLBACK
    ok(acl.rt.subscribe_report(me, stream))


@pytest.mark.parametrize("block", [-1, 2, 100])
def test_block_type(block: int, stream: int) -> None:
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    assert acl.rt.launch_callback(print, None, block, stream) == INVALID_PARAM


def test_callbacks_refuse_unknown_streams_and_those_of_other_contexts(stream: int) -> None:
    assert acl.rt.subscribe_report(1, 0x1234) == 107000
    assert acl.rt.launch_callback(print, None, 0, 0x1234) == 107000
    ok(acl.rt.create_context(0))
    assert acl.rt.subscribe_report(1, stream) == 107003
    assert acl.rt.unsubscribe_report(1, stream) == 107003


@pytest.mark.parametrize("timeout", [0, -2, -(2**31)])
def test_process_report_refuses_a_timeout(timeout: int, stream: int) -> None:
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    assert acl.rt.process_report(timeout) == INVALID_PARAM


def test_process_report_in_a_thread_without_subscription() -> None:
    start = time.monotonic()
    assert in_thread(lambda: acl.rt.process_report(-1)) == THREAD_SUBSCRIBE
    assert acl.rt.process_report(LONG) == THREAD_SUBSCRIBE
    assert time.monotonic() - start < 5, "it answers at once; the program loops"


def test_process_report_ends_after_its_timeout(stream: int) -> None:
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    start = time.monotonic()
    assert acl.rt.process_report(40) == REPORT_TIMEOUT
    assert 0.04 <= time.monotonic() - start < 5


def test_process_report_needs_no_context(stream: int) -> None:
    def work() -> list[int]:
        codes = []
        started.set()
        while not codes or codes[-1] == THREAD_SUBSCRIBE:
            codes.append(acl.rt.process_report(LONG))
        return codes

    started = threading.Event()
    results: list[list[int]] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    assert started.wait(WAIT) and thread.ident is not None
    seen: list[Any] = []
    ok(acl.rt.subscribe_report(thread.ident, stream))
    ok(acl.rt.launch_callback(seen.append, "data", BLOCK, stream))
    ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
    thread.join(WAIT)
    assert seen == ["data"] and results[0][-1] == 0


def test_at_most_1024_threads() -> None:
    for number in range(1, 1025):
        ok(acl.rt.subscribe_report(number, ok(acl.rt.create_stream())))
    last = ok(acl.rt.create_stream())
    assert acl.rt.subscribe_report(1025, last) != 0
    assert "1024" in message()
    ok(acl.rt.subscribe_report(7, last))  # a thread that is there serves one stream more


# ---- running -----------------------------------------------------------------------------------------------------------


def test_one_call_runs_one_callback(stream: int) -> None:
    seen: list[int] = []
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    for number in range(3):
        ok(acl.rt.launch_callback(seen.append, number, NO_BLOCK, stream))
    for number in range(3):
        assert acl.rt.process_report(LONG) == 0
        assert seen == list(range(number + 1))
    assert acl.rt.process_report(10) == REPORT_TIMEOUT


def test_callbacks_run_in_the_subscribed_thread_in_order(stream: int) -> None:
    seen: list[tuple[int, int]] = []
    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        for number in range(50):
            callback = lambda data: seen.append((data, threading.get_ident()))  # noqa: E731
            ok(acl.rt.launch_callback(callback, number, number % 2, stream))
        ok(acl.rt.launch_callback(lambda _: None, None, BLOCK, stream))
        ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
        assert seen == [(number, reporter.tid) for number in range(50)]
        ok(acl.rt.unsubscribe_report(reporter.tid, stream))
    assert reporter.codes.count(0) == 51


def test_callbacks_keep_their_place_among_tasks(stream: int) -> None:
    pointer, seen = word(), []
    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        for number in range(1, 20):
            ok(acl.rt.value_write(pointer, number, 0, stream))
            ok(acl.rt.launch_callback(lambda _: seen.append(value(pointer)), None, BLOCK, stream))
        ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
    assert seen == list(range(1, 20))


def test_blocking_callbacks_hold_the_stream(stream: int) -> None:
    pointer, inside, go = word(), threading.Event(), threading.Event()

    def callback(_: Any) -> None:
        inside.set()
        assert go.wait(WAIT)

    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        ok(acl.rt.launch_callback(callback, None, BLOCK, stream))
        ok(acl.rt.value_write(pointer, 1, 0, stream))
        assert inside.wait(WAIT)
        assert acl.rt.synchronize_stream_with_timeout(stream, 30) == SYNC_TIMEOUT
        assert value(pointer) == 0 and acl.rt.stream_query(stream) == (1, 0)
        go.set()
        ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
        assert value(pointer) == 1


def test_other_callbacks_do_not_hold_the_stream(stream: int) -> None:
    pointer, inside, go = word(), threading.Event(), threading.Event()

    def callback(_: Any) -> None:
        inside.set()
        assert go.wait(WAIT)

    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        ok(acl.rt.launch_callback(callback, None, NO_BLOCK, stream))
        ok(acl.rt.value_write(pointer, 1, 0, stream))
        assert inside.wait(WAIT)
        ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
        assert value(pointer) == 1
        go.set()


def test_synchronize_takes_the_time_of_the_callback(stream: int) -> None:
    """A public test on hardware allows 10 ms between the two."""
    times: list[float] = []

    def callback(_: Any) -> None:
        threading.Event().wait(0.1)
        times.append(time.monotonic())

    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        lags = []
        for _ in range(5):
            start = time.monotonic()
            ok(acl.rt.launch_callback(callback, None, BLOCK, stream))
            ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
            lags.append(time.monotonic() - times[-1])
            assert times[-1] - start >= 0.1
    assert min(lags) < 0.01  # the best of five: the machine may be busy


def test_the_default_stream_takes_callbacks() -> None:
    seen: list[str] = []
    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, 0))
        ok(acl.rt.launch_callback(seen.append, "x", BLOCK, 0))
        ok(acl.rt.synchronize_stream(0))
        ok(acl.rt.unsubscribe_report(reporter.tid, 0))
    assert seen == ["x"]


def test_one_thread_many_streams() -> None:
    streams = [ok(acl.rt.create_stream()) for _ in range(4)]
    seen: dict[int, list[int]] = {stream: [] for stream in streams}
    with Reporter() as reporter:
        for stream in streams:
            ok(acl.rt.subscribe_report(reporter.tid, stream))
        for number in range(20):
            for stream in streams:
                ok(acl.rt.launch_callback(seen[stream].append, number, BLOCK, stream))
        for stream in streams:
            ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
            ok(acl.rt.unsubscribe_report(reporter.tid, stream))
    assert all(numbers == list(range(20)) for numbers in seen.values())


def test_many_threads_many_streams() -> None:
    streams = [ok(acl.rt.create_stream()) for _ in range(4)]
    reporters = [Reporter() for _ in streams]
    seen: list[tuple[int, int]] = []
    for stream, reporter in zip(streams, reporters, strict=True):
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        ok(acl.rt.launch_callback(lambda data: seen.append((data, threading.get_ident())), stream, BLOCK, stream))
    for stream in streams:
        ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
    assert sorted(seen) == sorted((s, r.tid) for s, r in zip(streams, reporters, strict=True))
    for reporter in reporters:
        reporter.close()


def test_a_callback_that_raises(stream: int, tmp_path: Path) -> None:
    pointer = word()

    def callback(data: str) -> None:
        raise ValueError(data)

    def leave(_: Any) -> None:
        raise SystemExit(3)

    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        ok(acl.rt.launch_callback(callback, "told to the log", BLOCK, stream))
        ok(acl.rt.launch_callback(leave, None, BLOCK, stream))
        ok(acl.rt.value_write(pointer, 1, 0, stream))
        ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
    assert value(pointer) == 1
    assert reporter.codes.count(0) == 2, "process_report does not answer for the callback"
    text = "".join(path.read_text() for path in tmp_path.rglob("plog-*.log"))
    assert "ValueError: told to the log" in text and "SystemExit" in text


def test_user_data_lives_until_the_callback_ran(stream: int) -> None:
    class Data:
        pass

    seen: list[int] = []
    data = Data()
    gone = threading.Event()
    watcher = weakref.ref(data, lambda _: gone.set())
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    with Hold(stream):
        ok(acl.rt.launch_callback(lambda got: seen.append(id(got)), data, BLOCK, stream))
        address = id(data)
        del data
        gc.collect()
        assert watcher() is not None
    assert acl.rt.process_report(LONG) == 0
    ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
    assert seen == [address]
    gc.collect()
    assert gone.wait(WAIT), "and not for ever"


def test_callbacks_may_launch_callbacks(stream: int) -> None:
    seen: list[int] = []
    context = ok(acl.rt.get_context())

    def callback(number: int) -> None:
        seen.append(number)
        if number < 5:
            ok(acl.rt.set_context(context))
            ok(acl.rt.launch_callback(callback, number + 1, NO_BLOCK, stream))

    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    ok(acl.rt.launch_callback(callback, 0, NO_BLOCK, stream))
    assert [acl.rt.process_report(LONG) for _ in range(6)] == [0] * 6
    assert seen == [0, 1, 2, 3, 4, 5]


def test_callbacks_may_process_callbacks(stream: int) -> None:
    """Waiting for the stream of an outer blocking callback is refused in the inner one too."""
    other = ok(acl.rt.create_stream())
    codes: list[int] = []

    def outer(_: Any) -> None:
        ok(acl.rt.launch_callback(inner, None, BLOCK, other))
        codes.append(acl.rt.process_report(LONG))
        codes.append(acl.rt.synchronize_stream(stream))

    def inner(_: Any) -> None:
        codes.append(acl.rt.synchronize_stream(stream))

    for one in (stream, other):
        ok(acl.rt.subscribe_report(threading.get_ident(), one))
    ok(acl.rt.launch_callback(outer, None, BLOCK, stream))
    assert acl.rt.process_report(LONG) == 0
    assert codes == [107000, 0, 107000]
    ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))


# ---- the end of a subscription -----------------------------------------------------------------------------------------


def test_unsubscribing_drops_what_did_not_run(stream: int) -> None:
    seen: list[int] = []
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    ok(acl.rt.launch_callback(seen.append, 1, NO_BLOCK, stream))
    ok(acl.rt.launch_callback(seen.append, 2, BLOCK, stream))
    ok(acl.rt.unsubscribe_report(threading.get_ident(), stream))
    ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
    assert acl.rt.process_report(10) == THREAD_SUBSCRIBE
    assert seen == []


def test_unsubscribing_before_the_stream_got_there(stream: int) -> None:
    pointer, seen = word(), []
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    with Hold(stream):
        ok(acl.rt.launch_callback(seen.append, 1, BLOCK, stream))
        ok(acl.rt.value_write(pointer, 1, 0, stream))
        ok(acl.rt.unsubscribe_report(threading.get_ident(), stream))
    assert acl.rt.synchronize_stream_with_timeout(stream, LONG) == 0, "nobody waits for a callback that cannot run"
    assert value(pointer) == 1 and seen == []


def test_unsubscribing_wakes_the_thread(stream: int) -> None:
    entered = threading.Event()
    codes: list[int] = []

    def work() -> None:
        entered.set()
        while not (subscribed.is_set() and codes[-1] == THREAD_SUBSCRIBE):
            codes.append(acl.rt.process_report(-1))

    subscribed = threading.Event()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert entered.wait(WAIT) and thread.ident is not None
    ok(acl.rt.subscribe_report(thread.ident, stream))
    ok(acl.rt.launch_callback(lambda _: None, None, BLOCK, stream))
    ok(acl.rt.synchronize_stream_with_timeout(stream, LONG))
    subscribed.set()
    ok(acl.rt.unsubscribe_report(thread.ident, stream))
    thread.join(WAIT)
    assert not thread.is_alive() and codes[-1] == THREAD_SUBSCRIBE


def test_destroying_the_stream_ends_its_subscription(stream: int) -> None:
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    ok(acl.rt.destroy_stream(stream))
    assert acl.rt.process_report(10) == THREAD_SUBSCRIBE


def test_force_destroying_a_stream_with_a_callback_under_way(stream: int) -> None:
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    ok(acl.rt.launch_callback(print, None, BLOCK, stream))
    assert in_thread(lambda: acl.rt.destroy_stream_force(stream)) == 0
    assert acl.rt.process_report(10) == THREAD_SUBSCRIBE


def test_thread_that_has_ended(stream: int) -> None:
    tid = ok(acl.util.start_thread(lambda: None, None))
    ok(acl.rt.subscribe_report(tid, stream))
    ok(acl.util.stop_thread(tid))
    pointer = word()
    ok(acl.rt.launch_callback(print, None, BLOCK, stream))
    ok(acl.rt.value_write(pointer, 1, 0, stream))
    assert acl.rt.synchronize_stream_with_timeout(stream, LONG) == REPORT_TIMEOUT, "an error, not a hang"
    assert "has ended" in message()
    assert value(pointer) == 1
    ok(acl.rt.unsubscribe_report(tid, stream))  # still 0 after the thread itself has ended


def test_an_aborted_callback_does_not_run_later(stream: int) -> None:
    seen: list[int] = []
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    ok(acl.rt.launch_callback(seen.append, 1, BLOCK, stream))
    ok(acl.rt.stream_abort(stream))
    assert acl.rt.synchronize_stream_with_timeout(stream, LONG) in (0, 107023)
    assert acl.rt.process_report(10) == REPORT_TIMEOUT
    assert seen == []


def test_finalize_with_callbacks_under_way(stream: int) -> None:
    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        ok(acl.rt.subscribe_report(threading.get_ident(), ok(acl.rt.create_stream())))
        Hold(stream)  # never released
        ok(acl.rt.launch_callback(print, None, BLOCK, stream))
        assert in_thread(acl.finalize) == 0
    assert acl.rt.process_report(10) == THREAD_SUBSCRIBE
