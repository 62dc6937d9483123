"""Contexts."""

from __future__ import annotations

import threading

import pytest

import acl
from tests.support import Hold, in_thread, message, ok

INVALID_PARAM, NO_CONTEXT, BAD_VALUE, OTHER_CONTEXT, NOT_SET = 100000, 107002, 107000, 107003, 107021
NO_STREAM = 207008

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(autouse=True)
def started(fresh: None) -> None:
    ok(acl.init())


def test_create_makes_it_current() -> None:
    first = ok(acl.rt.create_context(1))
    assert acl.rt.get_context() == (first, 0)
    assert acl.rt.get_device() == (1, 0)
    second = ok(acl.rt.create_context(0))
    assert acl.rt.get_context() == (second, 0)
    assert first != second


def test_create_needs_no_set_device_and_no_reset() -> None:
    context = ok(acl.rt.create_context(0))
    ok(acl.rt.synchronize_stream(ok(acl.rt.create_stream())))
    assert acl.rt.get_primary_ctx_state(0) == (0, 0, 0), "it is not the default context"
    ok(acl.rt.destroy_context(context))
    ok(acl.finalize())


def test_the_last_call_wins() -> None:
    ok(acl.rt.set_device(0))
    default = ok(acl.rt.get_context())
    explicit = ok(acl.rt.create_context(1))
    ok(acl.rt.set_context(default))
    assert acl.rt.get_device() == (0, 0)
    ok(acl.rt.set_context(explicit))
    assert acl.rt.get_device() == (1, 0)
    ok(acl.rt.set_device(0))
    assert acl.rt.get_context() == (default, 0)


def test_a_new_thread_has_none() -> None:
    ok(acl.rt.set_device(0))

    def work() -> list[object]:
        return [
            acl.rt.get_context(),
            acl.rt.get_device(),
            acl.rt.create_stream(),
            acl.rt.create_event(),
            acl.rt.malloc(64, 0),
            acl.rt.synchronize_stream(0),
            acl.rt.synchronize_device(),
            acl.rt.ctx_get_current_default_stream(),
        ]

    pairs, single = (0, NO_CONTEXT), NO_CONTEXT
    assert in_thread(work) == [pairs, pairs, pairs, pairs, pairs, single, single, pairs]


def test_one_context_in_several_threads() -> None:
    context = ok(acl.rt.create_context(0))
    stream = ok(acl.rt.create_stream())

    def work() -> tuple[int, int]:
        ok(acl.rt.set_context(context))
        ok(acl.rt.synchronize_stream(stream))
        return acl.rt.get_context()  # type: ignore[no-any-return]

    assert in_thread(work) == (context, 0)
    assert in_thread(acl.rt.get_context) == (0, NO_CONTEXT)


def test_a_destroyed_context_is_current_nowhere_and_refused() -> None:
    context = ok(acl.rt.create_context(0))
    stream = ok(acl.rt.create_stream())
    ok(acl.rt.destroy_context(context))
    assert acl.rt.get_context() == (0, NO_CONTEXT)
    assert acl.rt.get_device() == (0, NO_CONTEXT)
    assert acl.rt.set_context(context) == BAD_VALUE
    assert "destroyed" in message()
    assert acl.rt.destroy_context(context) == BAD_VALUE
    assert acl.rt.create_stream() == (0, NO_CONTEXT)
    other = ok(acl.rt.create_context(0))
    assert acl.rt.synchronize_stream(stream) == BAD_VALUE, "its streams went with it"
    assert acl.rt.destroy_stream(stream) == BAD_VALUE
    ok(acl.rt.destroy_context(other))


def test_destroying_does_not_wait_and_frees_the_streams() -> None:
    ok(acl.rt.set_device(0))
    before = ok(acl.rt.get_stream_available_num())
    context = ok(acl.rt.create_context(0))
    Hold(ok(acl.rt.create_stream()))  # never released
    assert in_thread(lambda: acl.rt.destroy_context(context)) == 0
    ok(acl.rt.set_device(0))
    assert ok(acl.rt.get_stream_available_num()) == before


def test_destroying_it_elsewhere() -> None:
    context = ok(acl.rt.create_context(0))
    assert in_thread(lambda: acl.rt.destroy_context(context)) == 0
    assert acl.rt.get_context() == (0, NO_CONTEXT)


@pytest.mark.parametrize("wrong", [0x1234, 2**64 - 1, 1])
def test_an_unknown_context_is_refused(wrong: int) -> None:
    assert acl.rt.set_context(wrong) == BAD_VALUE
    assert acl.rt.destroy_context(wrong) == BAD_VALUE
    assert hex(wrong) in message()


def test_a_null_context_is_refused() -> None:
    assert acl.rt.set_context(0) == INVALID_PARAM
    assert acl.rt.destroy_context(0) == INVALID_PARAM
    assert "null" in message()


def test_handle_of_another_kind() -> None:
    ok(acl.rt.set_device(0))
    stream = ok(acl.rt.create_stream())
    assert acl.rt.set_context(stream) == BAD_VALUE
    assert "stream handle" in message()


def test_the_default_context_cannot_be_destroyed() -> None:
    ok(acl.rt.set_device(0))
    context = ok(acl.rt.get_context())
    assert acl.rt.destroy_context(context) != 0
    assert "reset_device" in message()
    assert acl.rt.get_context() == (context, 0)


def test_streams_belong_to_their_context() -> None:
    first = ok(acl.rt.create_context(0))
    stream = ok(acl.rt.create_stream())
    ok(acl.rt.create_context(0))
    assert acl.rt.synchronize_stream(stream) == OTHER_CONTEXT
    assert acl.rt.stream_query(stream) == (0, OTHER_CONTEXT)
    assert "set_context" in message()
    ok(acl.rt.set_context(first))
    ok(acl.rt.synchronize_stream(stream))


def test_every_context_has_a_default_stream() -> None:
    first = ok(acl.rt.create_context(0))
    one = ok(acl.rt.ctx_get_current_default_stream())
    assert one != 0
    assert acl.rt.ctx_get_current_default_stream() == (one, 0)
    assert acl.rt.stream_get_id(one) == acl.rt.stream_get_id(0), "0 stands for it"
    ok(acl.rt.create_context(0))
    assert ok(acl.rt.ctx_get_current_default_stream()) != one
    ok(acl.rt.set_context(first))
    assert acl.rt.destroy_stream(one) != 0
    ok(acl.rt.synchronize_stream(one))


def test_one_handle_for_the_default_stream_from_many_threads() -> None:
    context = ok(acl.rt.create_context(0))
    gate = threading.Barrier(8)
    handles = []

    def work() -> None:
        ok(acl.rt.set_context(context))
        gate.wait(20)
        handles.append(ok(acl.rt.ctx_get_current_default_stream()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(handles) == 8 and len(set(handles)) == 1


def test_the_default_stream_is_no_leak(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_CHECK", "leaks")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.rt.ctx_get_current_default_stream())
    ok(acl.finalize())
    assert capfd.readouterr().err == ""


def test_contexts_end_while_others_fill_them() -> None:
    """Creating in a context, resetting its device and finalising take the same locks in the same order."""
    stop = threading.Event()
    failures: list[object] = []

    def fill() -> None:
        while not stop.is_set():
            codes = [acl.rt.set_device(0), acl.rt.create_stream()[1], acl.rt.create_event()[1]]
            codes += [acl.rt.create_notify(0)[1], acl.rt.stream_query(0)[1], acl.rt.create_context(0)[1]]
            if not set(codes) <= {0, 100001, NO_CONTEXT, NO_STREAM}:  # a quick machine fills the device in between
                failures.append(codes)

    threads = [threading.Thread(target=fill, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()

    def churn() -> None:
        for _ in range(100):
            acl.rt.reset_device_force(0)
            acl.finalize()
            ok(acl.init())

    in_thread(churn, limit=60)
    stop.set()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []
    ok(acl.finalize())
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert ok(acl.rt.get_stream_available_num()) == 1984, "no stream number was lost"
    assert ok(acl.rt.get_event_avail_num()) == 65536


def test_options_of_a_context() -> None:
    first = ok(acl.rt.create_context(0))
    assert acl.rt.ctx_get_sys_param_opt(0) == (0, NOT_SET)
    ok(acl.rt.ctx_set_sys_param_opt(0, 1))
    assert acl.rt.ctx_get_sys_param_opt(0) == (1, 0)
    ok(acl.rt.create_context(0))
    assert acl.rt.ctx_get_sys_param_opt(0) == (0, NOT_SET)
    ok(acl.rt.set_context(first))
    assert acl.rt.ctx_get_sys_param_opt(0) == (1, 0)
    assert acl.rt.ctx_set_sys_param_opt(4, 1) == INVALID_PARAM
    assert acl.rt.ctx_get_sys_param_opt(-1) == (0, INVALID_PARAM)


def test_options_of_the_process() -> None:
    ok(acl.rt.set_sys_param_opt(1, 7))
    assert acl.rt.get_sys_param_opt(1) == (7, 0)
    assert in_thread(lambda: acl.rt.get_sys_param_opt(1)) == (7, 0)
    assert acl.rt.set_sys_param_opt(9, 1) == INVALID_PARAM


def test_alternating_contexts_before_every_call() -> None:
    contexts = [ok(acl.rt.create_context(index % 2)) for index in range(4)]
    streams = {}
    for context in contexts:
        ok(acl.rt.set_context(context))
        streams[context] = ok(acl.rt.create_stream())
    for _ in range(50):
        for index, context in enumerate(contexts):
            ok(acl.rt.set_context(context))
            ok(acl.rt.synchronize_stream(streams[context]))
            assert acl.rt.get_device() == (index % 2, 0)
