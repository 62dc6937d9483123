"""Marks, waits and cells: the gates that events and notifies are made of."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from softnpu.runtime.streams.event import TIME_LINE, Cell, Event, Mark, Notify, SharedCell, Wait
from tests.support import WAIT

CONTEXT: Any = SimpleNamespace()


def started(work: Any) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_mark_opens_once() -> None:
    mark = Mark()
    assert not mark.done and mark.time_ns == 0
    before = time.monotonic_ns()
    mark.complete()
    first = mark.time_ns
    assert before <= first <= time.monotonic_ns()
    mark.complete()
    assert mark.done and mark.time_ns == first


def test_waiting_for_a_mark() -> None:
    mark = Mark()
    start = time.monotonic()
    assert mark.wait(0.03) is False
    assert time.monotonic() - start >= 0.03
    assert mark.wait(0) is False
    assert mark.wait(-5) is False
    mark.complete()
    assert mark.wait() is True and mark.wait(0) is True


def test_a_mark_lets_all_go() -> None:
    mark = Mark()
    results: list[bool] = []
    threads = [started(lambda limit=limit: results.append(mark.wait(limit))) for limit in (None, WAIT, None, WAIT)]
    mark.complete()
    for thread in threads:
        thread.join(WAIT)
    assert results == [True] * 4


def test_an_event_counts_as_complete_until_it_is_recorded() -> None:
    event = Event(CONTEXT, "plain", 0, 1)
    assert event.complete()
    event.mark = Mark()
    assert not event.complete()
    event.mark.complete()
    assert event.complete()


@pytest.mark.parametrize(
    ("kind", "flag", "timed"), [("plain", 0, True), ("flag", 1, False), ("flag", TIME_LINE, True), ("ex", 9, True)]
)
def test_which_events_keep_times(kind: str, flag: int, timed: bool) -> None:
    assert Event(CONTEXT, kind, flag, 1).timed is timed


def test_waits_are_counted_until_they_are_over() -> None:
    event = Event(CONTEXT, "plain", 0, 1)
    waits = [Wait(event) for _ in range(3)]
    assert event.waits == 3
    waits[0].complete()
    waits[0].complete()
    assert event.waits == 2
    for wait in waits:
        wait.complete()
    assert event.waits == 0


def test_waits_are_counted_from_many_threads() -> None:
    event = Event(CONTEXT, "plain", 0, 1)

    def work() -> None:
        for _ in range(500):
            Wait(event).complete()

    threads = [started(work) for _ in range(4)]
    for thread in threads:
        thread.join(WAIT)
    assert event.waits == 0


@pytest.fixture(params=["own", "shared"])
def cell(request: pytest.FixtureRequest) -> Cell:
    return Cell() if request.param == "own" else SharedCell(memoryview(bytearray(1)))


def test_a_cell_is_taken_once(cell: Cell) -> None:
    assert not cell.is_set() and cell.take(0.0) is False
    cell.set()
    cell.set()
    assert cell.is_set()
    assert cell.take(0.0) is True
    assert not cell.is_set() and cell.take(0.0) is False


def test_a_cell_is_waited_for(cell: Cell) -> None:
    results: list[bool] = []
    thread = started(lambda: results.append(cell.take(WAIT)))
    cell.set()
    thread.join(WAIT)
    assert results == [True] and not cell.is_set()
    start = time.monotonic()
    assert cell.take(0.02) is False
    assert time.monotonic() - start >= 0.02


def test_clear(cell: Cell) -> None:
    cell.set()
    cell.clear()
    assert not cell.is_set() and cell.take(0.0) is False


def test_one_setting_lets_one_go() -> None:
    cell = Cell()
    results: list[bool] = []
    threads = [started(lambda: results.append(cell.take(0.2))) for _ in range(4)]
    cell.set()
    for thread in threads:
        thread.join(WAIT)
    assert sorted(results) == [False, False, False, True]


@pytest.mark.parametrize("value", [False, True])
def test_a_notify_keeps_its_value_when_it_moves(value: bool) -> None:
    notify = Notify(CONTEXT, 0, 1)
    if value:
        notify.record()
    cell = memoryview(bytearray(1))
    notify.move(SharedCell(cell))
    assert notify.cell.is_set() is value and bool(cell[0]) is value
    notify.record()
    assert cell[0] == 1
    notify.reset()
    assert cell[0] == 0
