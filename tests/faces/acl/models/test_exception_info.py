"""The exception callback: what a program learns of a failed task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import acl
from tests.support import Hold, in_thread, ok

NOT_KNOWN = 0xFFFFFFFF
NOT_SUPPORTED = 207000
READERS: dict[str, Callable[[int], int]] = {
    "error_code": acl.rt.get_error_code_from_exception_info,
    "task_id": acl.rt.get_task_id_from_exception_info,
    "stream_id": acl.rt.get_stream_id_from_exception_info,
    "thread_id": acl.rt.get_thread_id_from_exception_info,
    "device_id": acl.rt.get_device_id_from_exception_info,
}

pytestmark = pytest.mark.usefixtures("runtime")


class Watcher:
    """An exception callback that reads everything there is."""

    def __init__(self) -> None:
        self.infos: list[dict[str, int]] = []
        self.handles: list[int] = []

    def __call__(self, info: int) -> None:
        self.handles.append(info)
        self.infos.append({name: reader(info) for name, reader in READERS.items()})


def fail_on(stream: int) -> int:
    """A copy within the host: accepted, and failed by the stream. Answers the task's number."""
    host = ok(acl.rt.malloc_host(64))
    ok(acl.rt.memcpy_async(host, 32, host + 32, 32, 0, stream))
    number: int = ok(acl.rt.get_thread_last_task_id())
    return number


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("device", [0, 1])
def test_what_the_callback_learns(device: int, busy: bool) -> None:
    ok(acl.rt.set_device(device))
    ok(acl.rt.create_stream())
    stream = ok(acl.rt.create_stream())
    watcher = Watcher()
    ok(acl.rt.set_exception_info_callback(watcher))
    if busy:
        with Hold(stream):
            task = fail_on(stream)
    else:
        task = fail_on(stream)
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    (info,) = watcher.infos
    assert info == {
        "error_code": NOT_SUPPORTED,
        "task_id": task,
        "stream_id": ok(acl.rt.stream_get_id(stream)),
        "thread_id": threading.get_native_id(),  # of the thread that sent the task
        "device_id": device,
    }
    assert type(watcher.handles[0]) is int and watcher.handles[0] != 0


def test_every_failed_task_calls() -> None:
    stream, watcher = ok(acl.rt.create_stream()), Watcher()
    ok(acl.rt.set_exception_info_callback(watcher))
    tasks = [fail_on(stream) for _ in range(3)]
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    assert [info["task_id"] for info in watcher.infos] == tasks


def test_task_numbers_are_per_thread() -> None:
    stream, context = ok(acl.rt.create_stream()), ok(acl.rt.get_context())
    mine = fail_on(stream)

    def other() -> tuple[int, int, int]:
        ok(acl.rt.set_context(context))
        return ok(acl.rt.get_thread_last_task_id()), fail_on(stream), ok(acl.rt.get_thread_last_task_id())

    before, sent, after = in_thread(other)
    assert before == 0 and sent == after and sent != mine
    assert ok(acl.rt.get_thread_last_task_id()) == mine
    assert in_thread(acl.rt.get_thread_last_task_id)[1] == 107002


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_info_that_is_gone_answers_nothing(reader: Callable[[int], int]) -> None:
    stream, watcher = ok(acl.rt.create_stream()), Watcher()
    ok(acl.rt.set_exception_info_callback(watcher))
    fail_on(stream)
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    stale = watcher.handles[0]
    for nothing in (0, 0x1234, stream, stale):
        assert reader(nothing) == NOT_KNOWN


@pytest.mark.parametrize("removal", [(), (None,)])
def test_the_callback_can_be_removed(removal: tuple[None, ...]) -> None:
    stream, watcher = ok(acl.rt.create_stream()), Watcher()
    ok(acl.rt.set_exception_info_callback(watcher))
    ok(acl.rt.set_exception_info_callback(*removal))
    fail_on(stream)
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    assert watcher.infos == []


def test_a_new_callback_replaces_the_old_one() -> None:
    stream, first, second = ok(acl.rt.create_stream()), Watcher(), Watcher()
    ok(acl.rt.set_exception_info_callback(first))
    ok(acl.rt.set_exception_info_callback(second))
    fail_on(stream)
    assert acl.rt.synchronize_stream(stream) == NOT_SUPPORTED
    assert (len(first.infos), len(second.infos)) == (0, 1)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("raised", [ValueError("told to the log"), SystemExit(3)], ids=repr)
def test_a_callback_that_raises_harms_nobody(raised: BaseException, busy: bool, tmp_path: Path) -> None:
    stream = ok(acl.rt.create_stream())

    def callback(_: int) -> None:
        raise raised

    ok(acl.rt.set_exception_info_callback(callback))
    if busy:
        with Hold(stream):
            fail_on(stream)
    else:
        fail_on(stream)
    assert acl.rt.synchronize_stream_with_timeout(stream, 20_000) == NOT_SUPPORTED
    Hold(stream).release()
    ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))
    text = "".join(path.read_text() for path in tmp_path.rglob("plog-*.log"))
    assert type(raised).__name__ in text


def test_the_callback_may_call_anything() -> None:
    stream, other, context = ok(acl.rt.create_stream()), ok(acl.rt.create_stream()), ok(acl.rt.get_context())
    answers: list[object] = []

    def callback(_: int) -> None:
        ok(acl.rt.set_context(context))
        answers.append(acl.rt.synchronize_stream(other))
        answers.append(acl.rt.malloc(64, 0)[1])
        answers.append(acl.rt.set_exception_info_callback(None))

    ok(acl.rt.set_exception_info_callback(callback))
    with Hold(stream):
        fail_on(stream)
        fail_on(stream)
    assert acl.rt.synchronize_stream_with_timeout(stream, 20_000) == NOT_SUPPORTED
    assert answers == [0, 0, 0], "called once: it removed itself"


def test_finalize_removes_it() -> None:
    watcher = Watcher()
    ok(acl.rt.set_exception_info_callback(watcher))
    ok(acl.finalize())
    ok(acl.init())
    ok(acl.rt.set_device(0))
    fail_on(0)
    assert acl.rt.synchronize_stream(0) == NOT_SUPPORTED
    assert watcher.infos == []


# ---- time limits of operators (kept and told; no operator runs in this room) -------------------------------------------


def test_operator_time_limits() -> None:
    ok(acl.rt.set_op_execute_time_out(3))
    assert acl.rt.get_op_execute_timeout() == (3000, 0)
    interval = ok(acl.rt.get_op_timeout_interval())
    assert interval > 0
    assert acl.rt.set_op_execute_timeout_v2(interval * 5 - 1) == (interval * 5, 0), "rounded up to the interval"
    assert acl.rt.set_op_execute_timeout_v2(interval * 5) == (interval * 5, 0)
