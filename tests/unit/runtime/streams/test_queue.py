"""The queue: order, workers, waiting, dropping, and calls in the middle of other calls."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softnpu.base import log
from softnpu.base.errors import NpuError
from softnpu.runtime.streams import queue as module
from softnpu.runtime.streams.queue import Queue
from tests.support import WAIT, in_thread


class Gate:
    """A task that waits until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.opened.wait(WAIT)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> Iterator[Queue]:
    fresh = Queue(request.node.name)
    yield fresh
    fresh.drop()
    fresh.close()


def nothing() -> None:
    pass


def workers(queue: Queue) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == queue.name]


# ---- order -------------------------------------------------------------------------------------------------------------


def test_order(queue: Queue) -> None:
    seen: list[int] = []
    for number in range(500):
        queue.submit(lambda number=number: seen.append(number), inline=number % 3 == 0)  # type: ignore[misc]
    assert queue.synchronize(WAIT)
    assert seen == list(range(500))


def test_inline_on_an_idle_queue_runs_here(queue: Queue) -> None:
    seen: list[int] = []
    queue.submit(lambda: seen.append(threading.get_ident()), inline=True)
    assert seen == [threading.get_ident()]
    assert not workers(queue)


def test_inline_on_a_busy_queue_waits_its_turn(queue: Queue) -> None:
    gate = Gate()
    seen: list[int] = []
    queue.submit(gate)
    assert gate.entered.wait(WAIT)
    queue.submit(lambda: seen.append(threading.get_ident()), inline=True)
    assert seen == []
    gate.opened.set()
    assert queue.synchronize(WAIT)
    assert seen and seen[0] != threading.get_ident()


def test_others_wait_for_an_inline_task(queue: Queue) -> None:
    gate, seen = Gate(), []
    thread = threading.Thread(target=lambda: queue.submit(gate, inline=True))
    thread.start()
    assert gate.entered.wait(WAIT)
    queue.submit(lambda: seen.append(1))
    assert not queue.synchronize(0.02) and seen == [] and queue.busy()
    gate.opened.set()
    assert queue.synchronize(WAIT)
    thread.join(WAIT)
    assert seen == [1]


def test_tasks_of_many_threads_keep_their_own_order(queue: Queue) -> None:
    seen: list[tuple[int, int]] = []

    def work(name: int) -> None:
        for number in range(200):
            queue.submit(lambda number=number: seen.append((name, number)), inline=number % 2 == 0)  # type: ignore[misc]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert queue.synchronize(WAIT)
    for name in range(4):
        assert [number for who, number in seen if who == name] == list(range(200))


def test_one_task_at_a_time(queue: Queue) -> None:
    inside = 0
    most = 0

    def task() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.0001)
        inside -= 1

    def work() -> None:
        for number in range(30):
            queue.submit(task, inline=number % 2 == 0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert queue.synchronize(WAIT)
    assert most == 1


# ---- waiting -----------------------------------------------------------------------------------------------------------


def test_synchronize_with_time_limit(queue: Queue) -> None:
    gate = Gate()
    queue.submit(gate)
    assert queue.synchronize(0.02) is False
    gate.opened.set()
    assert queue.synchronize(WAIT) is True
    assert queue.synchronize(0.0) is True


def test_synchronize_does_not_wait_for_later_tasks(queue: Queue) -> None:
    first, second = Gate(), Gate()
    queue.submit(first)
    assert first.entered.wait(WAIT)
    results: list[bool] = []
    waiter = threading.Thread(target=lambda: results.append(queue.synchronize(WAIT)))
    waiter.start()
    while not queue._waiters:  # the waiter must have begun before the second task
        threading.Event().wait(0.001)
    queue.submit(second)
    first.opened.set()
    waiter.join(WAIT)
    assert results == [True] and not second.opened.is_set()
    second.opened.set()


def test_a_queue_is_never_idle_while_a_task_changes_hands(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment at which the worker takes a task is looked at through the task list itself."""
    seen: list[bool] = []

    class Watching(type(queue._tasks)):  # type: ignore[misc]
        def popleft(self) -> Any:
            task = super().popleft()
            seen.append(queue.busy())
            return task

    queue._tasks = Watching()
    queue.submit(nothing)
    assert queue.synchronize(WAIT)
    assert seen == [True]


def test_runs_here(queue: Queue) -> None:
    seen: list[bool] = []
    queue.submit(lambda: seen.append(queue.runs_here()), inline=True)
    queue.submit(lambda: seen.append(queue.runs_here()))
    assert queue.synchronize(WAIT)
    assert seen == [True, True] and not queue.runs_here()
    gate = Gate()
    queue.submit(gate)
    assert gate.entered.wait(WAIT)
    assert not queue.runs_here(), "another thread runs it"
    gate.opened.set()


# ---- dropping ----------------------------------------------------------------------------------------------------------


def test_drop_takes_what_has_not_begun(queue: Queue) -> None:
    gate, seen = Gate(), []
    queue.submit(gate)
    assert gate.entered.wait(WAIT)
    tasks: list[Callable[[], None]] = [lambda: seen.append(1), lambda: seen.append(2)]
    for task in tasks:
        queue.submit(task)
    assert queue.drop() == tasks
    queue.submit(lambda: seen.append(3))
    gate.opened.set()
    assert queue.synchronize(WAIT)
    assert seen == [3]
    assert queue.drop() == []


def test_who_waits_is_not_let_go_before_the_running_task_is_over(queue: Queue) -> None:
    gate = Gate()
    queue.submit(gate)
    assert gate.entered.wait(WAIT)
    done: list[bool] = []
    waiter = threading.Thread(target=lambda: done.append(queue.synchronize(WAIT) and gate.opened.is_set()))
    waiter.start()
    while not queue._waiters:
        threading.Event().wait(0.001)
    for _ in range(5):
        queue.submit(nothing)
    queue.drop()
    waiter.join(0.05)
    assert done == [], "five dropped tasks do not count for the one that runs"
    gate.opened.set()
    waiter.join(WAIT)
    assert done == [True]
    assert queue.synchronize(WAIT)


def test_who_waits_for_dropped_tasks_is_let_go(queue: Queue) -> None:
    gate = Gate()
    queue.submit(gate)
    assert gate.entered.wait(WAIT)
    for _ in range(3):
        queue.submit(nothing)
    queue.drop()
    gate.opened.set()
    assert queue.synchronize(WAIT)


# ---- workers -----------------------------------------------------------------------------------------------------------


def test_a_worker_exists_only_while_there_is_work(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.01)
    for _ in range(3):
        queue.submit(nothing)
        assert queue.synchronize(WAIT)
        for worker in workers(queue):
            worker.join(WAIT)
        assert not workers(queue)


def test_close_ends_an_idle_worker(queue: Queue) -> None:
    queue.submit(nothing)
    assert queue.synchronize(WAIT)
    (worker,) = workers(queue)
    queue.close()
    worker.join(WAIT)
    assert not worker.is_alive()


def test_tasks_sent_before_and_after_close_still_run(queue: Queue) -> None:
    gate, seen = Gate(), []
    queue.submit(gate)
    queue.submit(lambda: seen.append(1))
    queue.close()
    gate.opened.set()
    queue.submit(lambda: seen.append(2))
    assert queue.synchronize(WAIT)
    assert seen == [1, 2]


def test_a_task_that_raises_does_not_end_the_worker(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    log.reset()
    seen: list[int] = []

    def task() -> None:
        raise SystemExit("a defect")

    queue.submit(task)
    queue.submit(lambda: seen.append(1))
    assert queue.synchronize(WAIT)
    assert seen == [1]
    assert "a defect" in "".join(path.read_text() for path in tmp_path.rglob("*.log"))
    log.reset()


def test_an_inline_task_that_raises_frees_the_queue(queue: Queue) -> None:
    def task() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.submit(task, inline=True)
    assert not queue.busy() and queue.synchronize(0.0)


def test_no_thread_to_be_had(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NpuError) as caught:
            queue.submit(nothing)
        assert caught.value.code == 207005
        assert not queue.busy() and queue.synchronize(0.0), "the task was not accepted, nobody waits for it"
    seen: list[int] = []
    queue.submit(lambda: seen.append(1))
    assert queue.synchronize(WAIT)
    assert seen == [1]


def test_finished_tasks_are_let_go(queue: Queue) -> None:
    class Task:
        def __call__(self) -> None:
            pass

        def __del__(self) -> None:
            gone.set()

    gone = threading.Event()
    queue.submit(Task())
    assert queue.synchronize(WAIT)
    gc.collect()
    assert gone.wait(WAIT), "an idle worker keeps nothing alive"


# ---- in the middle of other calls --------------------------------------------------------------------------------------


class Interrupting:
    """Stands for the lock of a queue and runs `nested` once, inside the locked part, as a collection could."""

    def __init__(self, lock: Any, nested: Callable[[], object]) -> None:
        self._lock, self._nested = lock, [nested]

    def __enter__(self) -> None:
        self._lock.__enter__()
        if self._nested:
            self._nested.pop()()

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)


NESTED: dict[str, Callable[[Queue, list[str]], object]] = {
    "submit": lambda queue, seen: queue.submit(lambda: seen.append("nested")),
    "submit inline": lambda queue, seen: queue.submit(lambda: seen.append("nested"), inline=True),
    "synchronize": lambda queue, seen: queue.synchronize(),
    "drop": lambda queue, seen: queue.drop(),
    "close": lambda queue, seen: queue.close(),
}


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("name", NESTED)
def test_nested_in_submit(name: str, inline: bool, queue: Queue) -> None:
    seen: list[str] = []

    def work() -> bool:
        queue._lock = Interrupting(queue._lock, lambda: NESTED[name](queue, seen))  # type: ignore[assignment]
        queue.submit(lambda: seen.append("outer"), inline=inline)
        return queue.synchronize(WAIT)

    assert in_thread(work) is True
    assert "outer" in seen and len(seen) == (2 if name.startswith("submit") else 1)


@pytest.mark.parametrize("name", NESTED)
def test_nested_while_the_worker_is_started(name: str, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a thread makes many objects, so this is where a collection is most likely."""
    seen: list[str] = []
    nested = [lambda: NESTED[name](queue, seen)]
    original = threading.Thread.__init__

    def init(self: threading.Thread, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if nested and kwargs.get("name") == queue.name:
            nested.pop()()

    monkeypatch.setattr(threading.Thread, "__init__", init)

    def work() -> bool:
        queue.submit(lambda: seen.append("outer"))
        return queue.synchronize(WAIT)

    assert in_thread(work) is True
    if name != "drop":
        assert "outer" in seen
    if name.startswith("submit"):
        assert seen == ["outer", "nested"]
