"""The trace bus seen from the face: spans of calls and tasks, and no cost when nobody listens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import acl
from softnpu.base.trace import Bus, Span, bus
from tests.support import Hold, Reporter, ok

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def spans() -> Iterator[list[Span]]:
    seen: list[Span] = []
    end = bus.subscribe(seen.append)
    yield seen
    end()


def of(spans: list[Span], kind: str, name: str) -> list[Span]:
    return [span for span in spans if (span.kind, span.name) == (kind, name)]


def test_a_call_is_a_span(spans: list[Span]) -> None:
    ok(acl.rt.set_device(1))
    before = time.monotonic_ns()
    assert acl.rt.get_device() == (1, 0)
    after = time.monotonic_ns()
    (span,) = of(spans, "api", "acl.rt.get_device")
    assert before <= span.start <= span.end <= after
    assert (span.device, span.thread) == (1, threading.get_native_id())


def test_every_call_is_one_span(spans: list[Span]) -> None:
    for _ in range(5):
        ok(acl.rt.get_run_mode())
    assert acl.rt.set_device(99) == 107001
    with pytest.raises(TypeError):
        acl.rt.malloc(1)
    assert len(of(spans, "api", "acl.rt.get_run_mode")) == 5
    assert len(of(spans, "api", "acl.rt.set_device")) == 1, "a failed call too"
    assert len(of(spans, "api", "acl.rt.malloc")) == 1, "and one with wrong arguments"


def test_calls_inside_calls_are_spans_inside_the_outer_one(spans: list[Span]) -> None:
    """A callback runs inside process_report; its calls are spans of their own, inside the outer one."""
    stream = ok(acl.rt.create_stream())
    with Reporter() as reporter:
        ok(acl.rt.subscribe_report(reporter.tid, stream))
        ok(acl.rt.launch_callback(lambda _: acl.rt.get_device_count(), None, 1, stream))
        ok(acl.rt.synchronize_stream(stream))
    (inner,) = of(spans, "api", "acl.rt.get_device_count")
    assert any(
        span.start <= inner.start and inner.end <= span.end for span in of(spans, "api", "acl.rt.process_report")
    )


def test_calls_of_destructors_do_not_double_others(spans: list[Span]) -> None:
    class Owner:
        def __index__(self) -> int:
            acl.rt.get_device_count()  # runs in the middle of the outer call, as a destructor may
            return 64

    ok(acl.rt.malloc(Owner(), 0))
    ok(acl.rt.get_run_mode())
    counts = [len(of(spans, "api", f"acl.rt.{name}")) for name in ("malloc", "get_device_count", "get_run_mode")]
    assert counts[0] == counts[2] == 1 and counts[1] >= 1


@pytest.mark.parametrize("busy", [False, True])
def test_a_task_is_a_span(busy: bool, spans: list[Span]) -> None:
    ok(acl.rt.set_device(1))
    stream, pointer = ok(acl.rt.create_stream()), ok(acl.rt.malloc(64, 0))
    if busy:
        with Hold(stream):
            ok(acl.rt.memset_async(pointer, 64, 1, 64, stream))
    else:
        ok(acl.rt.memset_async(pointer, 64, 1, 64, stream))
    ok(acl.rt.synchronize_stream(stream))
    (task,) = of(spans, "task", "MEMSET_ASYNC")
    assert (task.device, task.stream) == (1, ok(acl.rt.stream_get_id(stream)))
    assert task.thread == threading.get_native_id(), "of the thread that sent it"
    assert task.detail["bytes"] == 64
    (call,) = of(spans, "api", "acl.rt.memset_async")
    assert call.start <= task.start <= task.end
    if busy:
        (wait,) = of(spans, "task", "NOTIFY_WAIT")
        assert wait.end <= task.start


def test_a_failed_task_is_a_span_too(spans: list[Span]) -> None:
    host = ok(acl.rt.malloc_host(64))
    ok(acl.rt.memcpy_async(host, 32, host + 32, 32, 0, 0))
    assert acl.rt.synchronize_stream(0) != 0
    assert len(of(spans, "task", "MEMCPY_ASYNC")) == 1


def test_nothing_happens_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """No span is built and nothing is published."""

    def never(*_: object) -> None:
        raise AssertionError("published without a listener")

    monkeypatch.setattr(Bus, "publish", never)
    monkeypatch.setattr(Span, "__new__", never)
    assert not bus.listeners
    pointer = ok(acl.rt.malloc(64, 0))
    ok(acl.rt.memset_async(pointer, 64, 1, 64, 0))
    with Hold(0):
        ok(acl.rt.memset_async(pointer, 64, 1, 64, 0))
    ok(acl.rt.synchronize_stream(0))


def test_nothing_is_heard_after_unsubscribing() -> None:
    seen: list[Span] = []
    end = bus.subscribe(seen.append)
    ok(acl.rt.get_run_mode())
    end()
    ok(acl.rt.get_run_mode())
    end()
    assert len(seen) == 1 and not bus.listeners


def test_listening_begins_and_ends_between_calls_of_other_threads() -> None:
    """Each call is traced once or not at all, however often listeners come and go."""
    stop = threading.Event()
    failures: list[object] = []

    def work() -> None:
        while not stop.is_set():
            if acl.rt.get_run_mode() != (1, 0):
                failures.append(acl.rt.get_run_mode())

    thread = threading.Thread(target=work)
    thread.start()
    seen: list[Span] = []
    for _ in range(300):
        bus.subscribe(seen.append)()
    stop.set()
    thread.join(20)
    del seen[:]
    end = bus.subscribe(seen.append)
    ok(acl.rt.get_run_mode())
    end()
    assert not failures and len(seen) == 1


def test_a_listener_that_raises_harms_nobody(tmp_path: Path) -> None:
    def listener(_: Span) -> None:
        raise ValueError("a defect of the listener")

    seen: list[Span] = []
    ends = [bus.subscribe(listener), bus.subscribe(seen.append)]
    try:
        stream, pointer = ok(acl.rt.create_stream()), ok(acl.rt.malloc(64, 0))
        with Hold(stream):
            ok(acl.rt.memset_async(pointer, 64, 7, 64, stream))
        ok(acl.rt.synchronize_stream_with_timeout(stream, 20_000))
        assert acl.util.ptr_to_bytes(pointer, 1) == b"\7"
    finally:
        for end in ends:
            end()
    assert of(seen, "task", "MEMSET_ASYNC"), "the others hear it"
    assert "a defect of the listener" in "".join(path.read_text() for path in tmp_path.rglob("plog-*.log"))
