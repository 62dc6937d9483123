"""Notifies inside one process (between processes: test_sharing.py)."""

from __future__ import annotations

import threading

import pytest

import acl
from tests.support import WAIT, in_thread, message, ok

INVALID_PARAM, BAD_VALUE, WAIT_TIMEOUT, NO_NOTIFY, SYNC_TIMEOUT = 100000, 107000, 107019, 207009, 507046

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def notify() -> int:
    made: int = ok(acl.rt.create_notify(0))
    return made


@pytest.fixture
def stream() -> int:
    made: int = ok(acl.rt.create_stream())
    return made


def test_create_and_destroy(notify: int) -> None:
    other = ok(acl.rt.create_notify(1))
    assert ok(acl.rt.get_notify_id(notify)) != ok(acl.rt.get_notify_id(other))
    ok(acl.rt.destroy_notify(notify))
    assert acl.rt.destroy_notify(notify) == BAD_VALUE
    assert acl.rt.destroy_notify(0) == INVALID_PARAM
    assert acl.rt.record_notify(notify, 0) == BAD_VALUE
    assert acl.rt.create_notify(2) == (0, INVALID_PARAM)


def test_the_number_of_notifies_is_limited() -> None:
    made = []
    while (answer := acl.rt.create_notify(0))[1] == 0:
        made.append(answer[0])
        assert len(made) < 100_000
    assert answer == (0, NO_NOTIFY)
    ok(acl.rt.destroy_notify(made.pop()))
    ok(acl.rt.create_notify(0))


def test_one_stream_waits_for_another(notify: int, stream: int) -> None:
    other = ok(acl.rt.create_stream())
    ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
    assert acl.rt.synchronize_stream_with_timeout(stream, 30) == SYNC_TIMEOUT
    ok(acl.rt.record_notify(notify, other))
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))


def test_the_wait_resets_it(notify: int, stream: int) -> None:
    ok(acl.rt.record_notify(notify, stream))
    ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))
    ok(acl.rt.wait_and_reset_notify(notify, stream, 1))
    assert acl.rt.synchronize_stream_with_timeout(stream, 20_000) == WAIT_TIMEOUT, "one second, not a millisecond"
    assert "notify" in message()


def test_recording_twice_counts_once(notify: int, stream: int) -> None:
    ok(acl.rt.record_notify(notify, stream))
    ok(acl.rt.record_notify(notify, stream))
    ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))
    ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
    assert acl.rt.synchronize_stream_with_timeout(stream, 30) == SYNC_TIMEOUT
    ok(acl.rt.record_notify(notify, ok(acl.rt.create_stream())))
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))


def test_several_notifies_are_reset_at_once(notify: int, stream: int) -> None:
    other = ok(acl.rt.create_notify(0))
    for one in (notify, other):
        ok(acl.rt.record_notify(one, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert acl.rt.notify_batch_reset([notify, 0x1234]) == BAD_VALUE
    ok(acl.rt.notify_batch_reset([notify, other]))
    for one in (notify, other):
        ok(acl.rt.wait_and_reset_notify(one, stream, 0))
        assert acl.rt.synchronize_stream_with_timeout(stream, 20) == SYNC_TIMEOUT
        ok(acl.rt.record_notify(one, ok(acl.rt.create_stream())))
        ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))


@pytest.mark.parametrize("seconds", [-1, 2**32, 2**40, -(2**40)])
def test_timeout_out_of_range(seconds: int, notify: int, stream: int) -> None:
    with pytest.raises(TypeError, match=r"acl\.rt\.wait_and_reset_notify args parse failed"):
        acl.rt.wait_and_reset_notify(notify, stream, seconds)
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))


def test_submitting_a_wait_never_blocks(notify: int) -> None:
    """One record, many streams that wait: one gets it, and no caller is held."""
    context = ok(acl.rt.get_context())
    streams = [ok(acl.rt.create_stream()) for _ in range(4)]
    recorder = ok(acl.rt.create_stream())
    for _ in range(50):
        ok(acl.rt.record_notify(notify, recorder))
        ok(acl.rt.synchronize_stream(recorder))
        gate = threading.Barrier(4)

        def submit(stream: int, gate: threading.Barrier = gate) -> None:
            ok(acl.rt.set_context(context))
            gate.wait(WAIT)
            ok(acl.rt.wait_and_reset_notify(notify, stream, 0))

        threads = [threading.Thread(target=submit, args=(stream,), daemon=True) for stream in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert not any(thread.is_alive() for thread in threads)
        for _ in range(3):  # the other three, one after the other
            ok(acl.rt.record_notify(notify, recorder))
            ok(acl.rt.synchronize_stream(recorder))
            while all(acl.rt.stream_query(stream)[0] for stream in streams):
                ok(acl.rt.synchronize_stream_with_timeout(recorder, 20_000))
        drain(notify, recorder, streams)


def drain(notify: int, recorder: int, streams: list[int]) -> None:
    """Let every stream that still waits go on."""
    for stream in streams:
        while acl.rt.synchronize_stream_with_timeout(stream, 1) == SYNC_TIMEOUT:
            ok(acl.rt.record_notify(notify, recorder))
    ok(acl.rt.synchronize_stream(recorder))
    ok(acl.rt.notify_batch_reset([notify]))


def test_a_waiting_stream_can_be_destroyed_by_force(notify: int, stream: int) -> None:
    ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
    assert in_thread(lambda: acl.rt.destroy_stream_force(stream)) == 0


def test_a_notify_is_recorded_from_another_device(notify: int, stream: int) -> None:
    ok(acl.rt.wait_and_reset_notify(notify, stream, 0))
    context = ok(acl.rt.get_context())
    ok(acl.rt.set_device(1))
    ok(acl.rt.record_notify(notify, 0))
    ok(acl.rt.set_context(context))
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))
