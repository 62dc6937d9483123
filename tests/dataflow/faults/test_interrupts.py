"""A signal handler that raises, at any moment inside feed and fetch: a feed happened or not, a result is never lost.

The steps of `softnpu.flow.atomic` are read as bytecode first, then whole graphs are stormed with alarms.
"""

from __future__ import annotations

import ctypes
import dis
import inspect
import itertools
import signal
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import dataflow as df
from softnpu.flow import atomic
from tests.dataflow.engine_support import embedded

ROUNDS = 500
# Python itself swallows what a handler raises inside a destructor; the next alarm comes soon.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    with embedded():
        yield


class Interrupt(Exception):
    """Raised by a signal, anywhere."""


def stormed(base: type[BaseException], step: Callable[[int], None], seed: int) -> int:
    """Call `step` with 1, 2, 3 … while alarms go off; how many there were."""

    def interrupt(*_: object) -> None:
        raise base

    random = np.random.default_rng(seed)
    before = signal.signal(signal.SIGALRM, interrupt)
    number = hits = 0
    try:
        while hits < ROUNDS:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.002), 0.5)
                while True:
                    number += 1
                    step(number)
            except base:
                hits += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return hits


# ---- the steps -------------------------------------------------------------------------------------------------------------

STEPS = [step for _, step in inspect.getmembers(atomic, inspect.isfunction) if step.__module__ == atomic.__name__]
ONE_CALL = (atomic.noting, atomic.put_back_last)  # what they do is done by one function that is written in C
STORES = ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "DELETE_ATTR", "DELETE_SUBSCR")
WHERE_SIGNALS_COME = ("CALL", "JUMP_BACKWARD", "SEND", "YIELD_VALUE", "FOR_ITER", "IMPORT_NAME")


def after_the_first_store(step: Callable[..., None]) -> list[str]:
    """The names of the instructions that follow the first change of anything that outlives the call."""
    names = []
    changed = False
    for instruction in dis.get_instructions(step):
        in_place = instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
        if changed:
            names.append(instruction.opname)
        changed |= in_place or instruction.opname in STORES
    assert changed, f"{step.__name__} changes nothing"
    return names


@pytest.mark.parametrize("step", [step for step in STEPS if step not in ONE_CALL])
def test_a_step_has_no_call_and_no_loop_after_its_first_store(step: Callable[..., None]) -> None:
    assert [name for name in after_the_first_store(step) if name.startswith(WHERE_SIGNALS_COME)] == []


def test_what_a_c_function_gives_is_noted_before_a_handler_can_run() -> None:
    """The handler is due inside the call that gives the result, and runs after it is in the list."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    send = getattr(ctypes.CDLL(None), "raise")  # unlike signal.raise_signal it does not look for signals itself
    results: list[object] = []
    try:
        with pytest.raises(Interrupt):
            atomic.noting(results, send, (signal.SIGALRM,))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert results == [0]


def test_what_was_taken_goes_back_to_where_it_was() -> None:
    first, second = deque([1, 2]), deque([3])
    taken: atomic.Taken = []
    atomic.take_first(first, taken)
    atomic.take_first(second, taken)
    assert (list(first), list(second), [item for _, item in taken]) == ([2], [], [1, 3])
    while taken:
        atomic.put_back_last(taken)
    assert (list(first), list(second)) == ([1, 2], [3])


# ---- whole graphs ----------------------------------------------------------------------------------------------------------


@df.pyflow
def same(value):
    return value


@df.pyflow
def pair(first, second):
    return (first, second)


class Book:
    """What was surely fed, what was perhaps fed, and what came."""

    def __init__(self, graph: df.FlowGraph, *inputs: df.FlowData) -> None:
        self.graph = graph
        self.inputs = inputs
        self.sure: set[int] = set()
        self.tried: set[int] = set()
        self.got: list[object] = []
        self.numbers: list[int] = []  # of what was got before

    def feed(self, number: int) -> None:
        self.tried.add(number)
        if self.graph.feed({each: self.value(number) for each in self.inputs}, timeout=1000) == 0:
            self.sure.add(number)

    def value(self, number: int) -> object:
        return number

    def take(self, timeout: int) -> bool:
        """One result into the list; without a call between, so that this program itself loses nothing."""
        if len(self.got) > 50:
            numbers = [self.read(each) for each in self.got]
            self.numbers += numbers
            self.got = []
        self.last = self.fetch(timeout)
        came = self.last[0]
        self.got += came
        return bool(came)

    def fetch(self, timeout: int) -> tuple[list[object], object]:
        return self.graph.fetch(timeout=timeout)

    def read(self, fetched: object) -> int:
        return int(fetched)  # type: ignore[call-overload]

    def step(self, number: int) -> None:
        self.feed(number)
        while self.take(0):
            pass

    def came(self) -> list[int]:
        return self.numbers + [self.read(each) for each in self.got]

    def check(self) -> None:
        while not self.sure <= set(self.came()) and self.take(10_000):
            pass
        while self.take(300):
            pass
        got = self.came()
        assert got == sorted(set(got)), [pair for pair in itertools.pairwise(got) if pair[1] <= pair[0]]
        assert self.sure <= set(got), sorted(self.sure - set(got))
        assert set(got) <= self.tried


@pytest.mark.parametrize("base", [Interrupt, KeyboardInterrupt])
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_comes_twice(base: type[BaseException], seed: int) -> None:
    data = df.FlowData()
    book = Book(df.FlowGraph([same.fnode()(data)]), data)
    assert book.graph.feed({data: 0}) == 0 and book.graph.fetch(timeout=5000) == ([0], 0)
    assert stormed(base, book.step, seed) == ROUNDS
    book.check()


class Frames(Book):
    def value(self, number: int) -> object:
        return np.full(20_000, number, np.int32)

    def read(self, fetched: object) -> int:
        assert isinstance(fetched, np.ndarray)
        return int(fetched[0]) if (fetched == fetched[0]).all() else -1


def test_frames_in_shared_memory_are_whole() -> None:
    data = df.FlowData()
    book = Frames(df.FlowGraph([same.fnode()(data)]), data)
    assert book.graph.feed({data: book.value(0)}) == 0 and len(book.graph.fetch(timeout=5000)[0]) == 1
    assert stormed(Interrupt, book.step, 3) == ROUNDS
    book.check()


class Pairs(Book):
    def read(self, fetched: object) -> int:
        first, second = fetched  # type: ignore[misc]
        return int(first) if first == second else -1


def test_two_inputs_are_fed_both_or_none() -> None:
    left, right = df.FlowData(), df.FlowData()
    book = Pairs(df.FlowGraph([pair.fnode()(left, same.fnode()(right))]), left, right)
    assert book.graph.feed({left: 0, right: 0}) == 0 and book.graph.fetch(timeout=5000) == ([(0, 0)], 0)
    assert stormed(Interrupt, book.step, 4) == ROUNDS
    book.check()


class Aligned(Book):
    def feed(self, number: int) -> None:
        self.tried.add(number)
        if self.graph.feed_data({self.inputs[0]: np.array([number])}, timeout=1000) == 0:
            self.sure.add(number)

    def take(self, timeout: int) -> bool:
        self.last = self.graph.fetch_data(timeout=timeout)
        came = self.last[0]
        if came:
            self.got += (came,)
        return bool(came)

    def read(self, fetched: object) -> int:
        first, second = (int(each.numpy()[0]) for each in fetched)  # type: ignore[attr-defined]
        return first if first == second else -1


def test_two_outputs_that_are_aligned_stay_together() -> None:
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data), same.fnode()(same.fnode()(data))])
    graph.set_inputs_align_attrs(1000, -1)
    book = Aligned(graph, data)
    assert graph.feed_data({data: np.array([0])}) == 0 and graph.fetch_data(timeout=5000)[2] == 0
    assert stormed(Interrupt, book.step, 5) == ROUNDS
    book.check()
