"""What nodes do, on every engine; functions that read streams have a file of their own."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import EMPTY, graph_of, node

# ---- fan-out, functions, outputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [8, 300_000])
def test_consumers_do_not_see_each_other(engine, size) -> None:
    @df.pyflow
    def spoil(a):
        array = a.numpy() if isinstance(a, df.Tensor) else a
        if array.flags.writeable:
            array[:] = -1
        return int(array[0])

    @df.pyflow
    def total(a, after):
        return int((a.numpy() if isinstance(a, df.Tensor) else a).sum())

    data = df.FlowData()
    graph = df.FlowGraph([total.fnode()(data, spoil.fnode()(data))])  # looks only when the other is done
    array = np.arange(size, dtype=np.int64)
    for value in (array, df.Tensor(array)):
        assert graph.feed({data: value}) == 0
        assert graph.fetch(timeout=5000) == ([size * (size - 1) // 2], 0)
    assert array[0] == 0 and array[-1] == size - 1  # what was fed is the program's


@pytest.mark.parametrize("size", [8, 300_000])
def test_an_only_consumer_owns_its_objects(engine, size) -> None:
    @df.pyflow
    def double(a):
        a *= 2
        return a

    data, graph = graph_of(double)
    array = np.arange(size)
    assert graph.feed({data: array}) == 0
    [result], code = graph.fetch(timeout=5000)
    assert code == 0 and np.array_equal(result, 2 * np.arange(size)) and array[-1] == size - 1
    result += 1  # fetched objects belong to the program


class Four:
    """Four functions of one object; the last two share an output."""

    def __init__(self) -> None:
        self.calls = [0, 0, 0, 0]

    def _answer(self, run_context, input_flow_msgs, number, output):
        self.calls[number] += 1
        value = input_flow_msgs[0].get_tensor().numpy()
        return run_context.set_output(output, np.array([value[0] * 10 + number, *self.calls]))

    @ff.proc_wrapper("i0,o0")
    def first(self, run_context, input_flow_msgs):
        return self._answer(run_context, input_flow_msgs, 0, 0)

    @ff.proc_wrapper("i1,o1")
    def second(self, run_context, input_flow_msgs):
        return self._answer(run_context, input_flow_msgs, 1, 1)

    @ff.proc_wrapper("i2,o2")
    def third(self, run_context, input_flow_msgs):
        return self._answer(run_context, input_flow_msgs, 2, 2)

    @ff.proc_wrapper("i3,o2,o3")
    def last(self, run_context, input_flow_msgs):
        outside = run_context.set_output(0, np.zeros(1))  # belongs to another function
        assert outside == 164000
        return self._answer(run_context, input_flow_msgs, 3, 2)


def test_only_the_function_whose_inputs_came_runs(engine) -> None:
    inputs = [df.FlowData(name=name) for name in "abcd"]
    graph = df.FlowGraph(list(node(Four, 4, 4)(*inputs)))
    for number in (2, 0, 1):
        assert graph.feed_data({inputs[number]: [number]}, partial_inputs=True) == 0
        calls = [int(other in (2, 0, 1)[: (2, 0, 1).index(number) + 1]) for other in range(4)]
        assert user.value(graph.fetch_data([number], 5000)) == [number * 10 + number, *calls]
    assert graph.feed_data({inputs[3]: [5]}, partial_inputs=True) == 0
    assert user.value(graph.fetch_data([2], 5000)) == [53, 1, 1, 1, 1]
    assert graph.fetch_data([3], 0)[2] == EMPTY


def test_methods_of_a_class_share_the_object(engine) -> None:
    @df.pyflow
    class Account:
        def __init__(self, start):
            self.value = start

        @df.method()
        def put(self, amount):
            self.value += amount
            return self.value

        @df.method()
        def look(self, question):
            return question, self.value

    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    account = Account.fnode(100)
    graph = df.FlowGraph([account.put(a), account.look(b)])
    assert graph.feed({b: "before"}, partial_inputs=True) == 0
    assert graph.fetch([1], 5000) == ([("before", 100)], 0)
    assert graph.feed({a: 7}, partial_inputs=True) == 0 and graph.fetch([0], 5000) == ([107], 0)
    assert graph.feed({b: "after"}, partial_inputs=True) == 0
    assert graph.fetch([1], 5000) == ([("after", 107)], 0)


class Control:
    """Two of four outputs, as the input says."""

    @ff.proc_wrapper("i0,o0,o1,o2,o3")
    def go(self, run_context, input_flow_msgs):
        first = 2 * int(input_flow_msgs[0].get_tensor().numpy()[0])
        left = np.array([1, 2, 3], np.int32)
        right = np.array([3, 3, 3] if first else [1, 1, 1], np.int32)
        return run_context.set_output(first, left) or run_context.set_output(first + 1, right)


class Combine:
    """Addition or multiplication, as its parameter says."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        code, self.name = meta_params.get_attr_str("name")
        return code

    @ff.proc_wrapper("i0,i1,o0")
    def go(self, run_context, input_flow_msgs):
        a, b = (msg.get_tensor().numpy() for msg in input_flow_msgs)
        return run_context.set_output(0, a + b if self.name == "add" else a * b)


@pytest.mark.on_ray
def test_a_function_may_write_only_some_of_its_outputs(engine) -> None:
    data = df.FlowData()
    a, b, c, d = node(Control, 1, 4)(data)
    graph = df.FlowGraph([node(Combine, 2, 1, name="add")(a, b), node(Combine, 2, 1, name="multiply")(c, d)])
    for choice, wanted in ((0, [2, 3, 4]), (1, [3, 6, 9]), (0, [2, 3, 4])):
        assert graph.feed_data({data: [choice]}) == 0
        assert user.value(graph.fetch_data([choice], 5000)) == wanted
        assert graph.fetch_data([1 - choice], 0)[2] == EMPTY


@pytest.mark.on_ray
def test_every_value_a_generator_yields_is_a_message(engine) -> None:
    @df.pyflow
    def count(a):
        for number in range(5):
            yield a + number

    data, graph = graph_of(count)
    for first in (10, 20):
        assert graph.feed({data: first}) == 0
    for wanted in (10, 11, 12, 13, 14, 20, 21, 22, 23, 24):
        assert graph.fetch(timeout=5000) == ([wanted], 0)
    assert graph.fetch(timeout=0) == ([], EMPTY)


def test_yields_arrive_at_once(engine, tmp_path: pathlib.Path) -> None:
    if engine == "inline":
        pytest.skip("functions run in the thread that fetches")
    gate = str(tmp_path / "gate")
    os.mkfifo(gate)

    @df.pyflow(num_returns=2)
    def slow(a):
        yield a, "first"
        with open(gate) as file:
            file.read()
        yield a, "second"

    data, graph = graph_of(slow)
    assert graph.feed({data: 1}) == 0
    assert graph.fetch(timeout=5000) == ([1, "first"], 0)
    with open(gate, "w"):
        assert graph.fetch(timeout=0) == ([], EMPTY)
    assert graph.fetch(timeout=5000) == ([1, "second"], 0)


def test_choice_output_decides_which_outputs_are_sent(engine) -> None:
    @df.pyflow(num_returns=2, choice_output=lambda value: value > 0)
    def split(a):
        return a, -a

    data, graph = graph_of(split)
    for number in (3, -4, 5):
        assert graph.feed({data: number}) == 0
    assert [graph.fetch([0], 5000) for _ in range(2)] == [([3], 0), ([5], 0)]
    assert graph.fetch([1], 5000) == ([4], 0)
    assert graph.fetch([0], 0)[1] == graph.fetch([1], 0)[1] == EMPTY


def test_results_of_the_wrong_number_fail_their_transaction(engine) -> None:
    @df.pyflow(num_returns=2)
    def two(kind):
        return {"list": [1, 2], "short": (1,), "long": (1, 2, 3), "scalar": 1, "right": (1, 2)}[kind]

    data, graph = graph_of(two)
    for kind in ("list", "short", "long", "scalar"):
        assert graph.feed({data: kind}) == 0 and graph.fetch(timeout=5000) == ([], 145000)
        assert graph.feed({data: kind}) == 0 and graph.fetch_data(timeout=5000)[2] == 564000
    assert graph.feed({data: "right"}) == 0 and graph.fetch(timeout=5000) == ([1, 2], 0)


@pytest.mark.on_ray
def test_a_failing_call_fails_its_transaction_only(engine) -> None:
    @df.pyflow
    def invert(a):
        return 1 / a

    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(user.same).fnode()(invert.fnode()(data))])
    for number in (2, 0, 4):
        assert graph.feed({data: number}) == 0
    assert graph.fetch(timeout=5000) == ([0.5], 0)
    tensors, info, code = graph.fetch_data(timeout=5000)
    assert (tensors, info.transaction_id, code) == ([], 2, 564000)
    assert graph.fetch(timeout=5000) == ([0.25], 0)


class Code:
    """Returns what it is given."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        code = int(input_flow_msgs[0].get_tensor().numpy()[0])
        return code or run_context.set_output(0, input_flow_msgs[0])


def test_the_code_of_a_low_level_function_is_the_code_of_the_fetch(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(Code, 1, 1)(data)])
    for code in (9900001, 0, 564000):
        assert graph.feed_data({data: [code]}) == 0
        assert graph.fetch_data(timeout=5000)[2] == code


def test_strict_stops_the_node(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(Code, 1, 1)(data)], {"softnpu.flow.strict": "1"})
    for code in (0, 9900001, 0):
        assert graph.feed_data({data: [code]}) == 0
    assert graph.fetch_data(timeout=5000)[2] == 0
    assert graph.fetch_data(timeout=200)[2] == EMPTY
