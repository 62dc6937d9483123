"""Functions that take from queues themselves, and sources, on every engine."""

from __future__ import annotations

import pathlib
import queue
import time

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import EMPTY, graph_of, node
from tests.waiting import eventually


def two_and_one(a, b):
    return a.get(), a.get(), b.get()


@pytest.mark.on_ray
def test_two_of_one_and_one_of_the_other(engine) -> None:
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph([df.pyflow(stream_input="Queue")(two_and_one).fnode()(a, b)])
    for number in range(6):
        assert graph.feed({a: number}, partial_inputs=True) == 0
    for letter in "xyz":
        assert graph.feed({b: letter}, partial_inputs=True) == 0
    for wanted in ((0, 1, "x"), (2, 3, "y"), (4, 5, "z")):
        assert graph.fetch(timeout=5000) == ([wanted], 0)
    assert graph.fetch(timeout=0) == ([], EMPTY)


def test_a_stream_function_reads_its_input_as_a_python_queue(engine) -> None:
    @df.pyflow
    class Reader:
        def __init__(self):
            self.queues = set()

        @df.method(stream_input="Queue")
        def read(self, a):
            self.queues.add(id(a))
            first = a.get()
            began = time.monotonic()
            outcomes = []
            for question in (a.get_nowait, lambda: a.get(timeout=200), lambda: a.get(False)):
                try:
                    question()
                except queue.Empty:
                    outcomes.append("empty")
            spent = time.monotonic() - began
            return first, outcomes, 0.19 < spent < 1.5, a.maxsize, a.qsize(), a.empty(), a.full(), len(self.queues)

    data = df.FlowData()
    graph = df.FlowGraph([Reader.fnode().read(data)])
    for number in (None, {"any": "object"}):
        assert graph.feed({data: number}) == 0
        assert graph.fetch(timeout=5000) == ([(number, ["empty"] * 3, True, 128, 0, True, False, 1)], 0)


def test_runs_before_its_data_and_again_after_each_return(engine) -> None:
    @df.pyflow
    class Entered:
        def __init__(self):
            self.times = 0

        @df.method(stream_input="Queue")
        def read(self, a):
            self.times += 1
            yield "entered", self.times
            yield "got", a.get()

    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph([Entered.fnode().read(a), df.pyflow(user.same).fnode()(b)])
    assert graph.feed({b: 0}, partial_inputs=True) == 0  # starts the graph; the stream has no data yet
    for number in range(1, 4):
        assert graph.fetch([0], 5000) == ([("entered", number)], 0)
        assert graph.feed({a: number}, partial_inputs=True) == 0
        assert graph.fetch([0], 5000) == ([("got", number)], 0)


def test_finalize_frees_a_blocked_get(engine, tmp_path: pathlib.Path) -> None:
    note = tmp_path / "note"

    @df.pyflow(stream_input="Queue")
    def wait(a):
        yield "entered"
        try:
            yield a.get()
        except df.DfAbortException as stopped:
            note.write_text(str(stopped.error_code))
            raise

    data, graph = graph_of(wait)
    assert graph.feed({data: 5}) == 0
    assert [graph.fetch(timeout=5000) for _ in range(3)] == [(["entered"], 0), ([5], 0), (["entered"], 0)]
    began = time.monotonic()
    df.finalize()
    assert time.monotonic() - began < 10
    assert eventually(lambda: note.exists() and note.read_text() == "564004")


def test_failing_stream_goes_on(engine) -> None:
    @df.pyflow(stream_input="Queue")
    def invert(a):
        return 1 / a.get()

    data, graph = graph_of(invert)
    for number in (0, 4):
        assert graph.feed({data: number}) == 0
    assert graph.fetch_data(timeout=5000)[2] == 564000
    assert graph.fetch(timeout=5000) == ([0.25], 0)


def test_results_of_a_stream_are_numbered(engine) -> None:
    @df.pyflow(stream_input="Queue")
    def pairs(a):
        return df.Tensor(a.get().numpy() + a.get().numpy())

    data, graph = graph_of(pairs)
    for number in range(6):
        assert graph.feed_data({data: [number]}, df.FlowInfo(transaction_id=100 + number)) == 0
    for turn, wanted in enumerate((1, 5, 9), 1):
        [tensor], info, code = graph.fetch_data(timeout=5000)
        assert (tensor.numpy().tolist(), info.transaction_id, code) == ([wanted], turn, 0)


def test_a_plain_function_without_inputs_is_a_source(engine) -> None:
    @df.pyflow
    class Ticks:
        def __init__(self):
            self.ticks = 0
            self.asked = 0

        @df.method()
        def ask(self, a):
            self.asked += a
            return self.asked

        @df.method()
        def tick(self):
            self.ticks += 1
            return self.ticks, self.asked

    data = df.FlowData()
    source = Ticks.fnode()
    graph = df.FlowGraph([source.tick(), source.ask(data)])
    ticks = []
    for turn in (1, 2, 3):
        assert graph.feed({data: 1}, timeout=5000) == 0
        while not ticks or ticks[-1][1] < turn:  # ticks that nobody takes hold up both functions
            [tick], code = graph.fetch([0], 5000)
            assert code == 0 and len(ticks) < 5000
            ticks.append(tick)
        assert graph.fetch([1], 5000) == ([turn], 0)
    assert [number for number, _ in ticks] == list(range(1, len(ticks) + 1))
    assert [asked for _, asked in ticks] == sorted(asked for _, asked in ticks)


class Source:
    """Counts for ever without being asked, until nobody takes it any more."""

    def __init__(self) -> None:
        self.number = 0

    @ff.proc_wrapper("o0")
    def count(self, run_context, input_flow_msgs):
        self.number += 1
        return run_context.set_output(0, np.array([self.number]))


class Few(Source):
    """Has three things to say, and is asked on and on."""

    @ff.proc_wrapper("o0")
    def count(self, run_context, input_flow_msgs):
        self.number += 1
        return run_context.set_output(0, np.array([self.number])) if self.number <= 3 else 0


def test_source_is_called_without_inputs(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(Source, 0, 1)(), node(user.Relay, 1, 1)(data)])
    assert graph.feed_data({data: [1]}, timeout=5000) == 0
    assert [user.value(graph.fetch_data([0], 5000)) for _ in range(300)] == [[number + 1] for number in range(300)]
    assert user.value(graph.fetch_data([1], 5000)) == [1]


def test_source_that_has_nothing_more_to_say(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(Few, 0, 1)(), node(user.Relay, 1, 1)(data)])
    for turn in (1, 2, 3):
        assert graph.feed_data({data: [turn]}, timeout=5000) == 0
        assert user.value(graph.fetch_data([0], 5000)) == [turn] == user.value(graph.fetch_data([1], 5000))
    assert graph.fetch_data([0], 100)[2] == EMPTY
