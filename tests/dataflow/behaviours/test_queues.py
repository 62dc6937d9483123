"""Invoked closures and the queues between nodes, on every engine."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import EMPTY, FULL, node
from tests.dataflow.dataflow_support import arithmetic
from tests.waiting import eventually

# ---- closures ------------------------------------------------------------------------------------------------------------


class Invokes:
    """Runs the closure of the key that its parameter names; -1 and the code if that fails."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        code, self.key = meta_params.get_attr_str("key")
        return code

    @ff.proc_wrapper("i0,i1,o0")
    def go(self, run_context, input_flow_msgs):
        code, outputs = run_context.run_flow_model(self.key, input_flow_msgs, 20000)
        if code:
            return run_context.set_output(0, np.array([-1, code, len(outputs)], np.float32))
        return run_context.set_output(0, outputs[-1])


class Slow:
    """A function that waits long when it is told to."""

    @ff.proc_wrapper("i0,i1,o0")
    def go(self, run_context, input_flow_msgs):
        a, b = (msg.get_tensor().numpy() for msg in input_flow_msgs)
        time.sleep(float(b[0]))
        return run_context.set_output(0, a * 10)


class Impatient:
    """Gives a closure 150 ms."""

    @ff.proc_wrapper("i0,i1,o0")
    def go(self, run_context, input_flow_msgs):
        began = time.monotonic()
        code, outputs = run_context.run_flow_model("slow", input_flow_msgs, 150)
        spent = time.monotonic() - began
        value = float(outputs[0].get_tensor().numpy()[0]) if outputs else -1.0
        return run_context.set_output(0, np.array([code, value, 0.0 if spent < 1 else spent]))


A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def closure_graph(udf: type, closures: dict[str, Any], **params: Any):
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    flow_node = node(udf, 2, 1, **params)
    for key, point in closures.items():
        flow_node.point.add_invoked_closure(key, point)
    return a, b, df.FlowGraph([flow_node(a, b)])


@pytest.mark.parametrize("key", ["net", "graph", "unknown"])
def test_a_function_runs_a_model_or_graph_by_its_key(engine, key, tmp_path: pathlib.Path) -> None:
    model = str(arithmetic(tmp_path / "model.onnx"))
    inner_a, inner_b = df.FlowData(name="inner_a"), df.FlowData(name="inner_b")
    total, scaled = df.GraphProcessPoint(df.Framework.ONNX, model).fnode(2, 2)(inner_a, inner_b)
    inner = df.FlowGraph([total, node(user.Relay, 1, 1)(scaled)])
    closures = {
        "net": df.GraphProcessPoint(df.Framework.ONNX, model),
        "graph": df.FlowGraphProcessPoint(inner),
    }
    a, b, graph = closure_graph(Invokes, closures, key=key)
    for number in (1, 2):
        assert graph.feed_data({a: A * number, b: B}) == 0
        [tensor], info, code = graph.fetch_data(timeout=20000)
        assert code == 0 and info.transaction_id == number
        if key == "unknown":
            assert tensor.numpy().tolist() == [-1, 564000, 0]
        else:
            np.testing.assert_allclose(tensor.numpy(), (A * number + B) * A * number - B, rtol=1e-6)


def test_a_closure_that_is_late_is_given_up_and_its_result_is_nobodys(engine) -> None:
    inner_a, inner_b = df.FlowData(name="inner_a"), df.FlowData(name="inner_b")
    inner = df.FlowGraph([node(Slow, 2, 1)(inner_a, inner_b)])
    a, b, graph = closure_graph(Impatient, {"slow": df.FlowGraphProcessPoint(inner)})
    for value, wait, wanted in ((3, 0.0, [0, 30, 0]), (4, 0.4, [564000, -1, 0])):
        assert graph.feed_data({a: [value], b: [wait]}) == 0
        assert user.value(graph.fetch_data(timeout=5000)) == wanted
    until = time.monotonic() + 5
    while True:  # the late result is nobody's: the next that comes is of its own call
        assert graph.feed_data({a: [5], b: [0.0]}) == 0
        answer = user.value(graph.fetch_data(timeout=5000))
        if answer[0] == 0:
            break
        assert time.monotonic() < until
    assert answer == [0, 50, 0]


# ---- queues --------------------------------------------------------------------------------------------------------------


def gate(depth: int, policy: str, before: bool = False):
    value, opener = df.FlowData(name="a"), df.FlowData(name="b")
    flow_node = df.pyflow(user.gated).fnode()
    flow_node.set_attr("_flow_attr_depth", depth)
    flow_node.set_attr("_flow_attr_enqueue_policy", policy)
    if not before:
        return value, opener, df.FlowGraph([flow_node(value, opener)])
    first = df.pyflow(user.same).fnode()
    first.set_attr("_flow_attr_depth", depth)
    return value, opener, df.FlowGraph([flow_node(first(value), opener)])


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("size", [1, 20_000])
def test_overwrite_keeps_the_newest(engine, before, size) -> None:
    value, opener, graph = gate(3, "OVERWRITE", before)
    last = 200
    for number in range(last + 1):
        assert graph.feed({value: np.full(size, number)}, timeout=5000, partial_inputs=True) == 0
    if before and engine != "inline":
        assert eventually(lambda: _received(graph, last + 1))
    for _ in range(3):
        assert graph.feed({opener: 0}, timeout=5000, partial_inputs=True) == 0
    values = []
    for _ in range(3):
        [array], code = graph.fetch(timeout=5000)
        assert code == 0 and array.shape == (size,)
        values.append(int(array[0]))
    assert values == [last - 2, last - 1, last]
    assert graph.feed({opener: 0}, timeout=5000, partial_inputs=True) == 0 and graph.fetch(timeout=50)[1] == EMPTY


def _received(graph: df.FlowGraph, count: int) -> bool:
    rows = {row["node"]: row for row in graph._session.statistics()}
    return rows["gated_fnode"]["received"] >= count


def test_a_full_fifo_refuses_and_keeps_what_it_has(engine) -> None:
    value, opener, graph = gate(3, "FIFO")
    assert [graph.feed({value: number}, 0, True) for number in range(5)] == [0, 0, 0, FULL, FULL]
    for _ in range(3):
        assert graph.feed({opener: 0}, 5000, True) == 0
    assert [graph.fetch(timeout=5000) for _ in range(3)] == [([number], 0) for number in range(3)]


@pytest.mark.on_ray
def test_a_slow_consumer_bounds_memory_and_keeps_order(engine) -> None:
    value, opener, graph = gate(4, "FIFO", before=True)
    fed = 0
    while graph.feed({value: fed}, 100, True) == 0:
        fed += 1
        assert fed < 100
    # two queues of four, one result that waits for room, and the call that made it
    assert 8 <= fed <= 12
    for number in range(fed):
        assert graph.feed({opener: 0}, 5000, True) == 0
        assert graph.fetch(timeout=5000) == ([number], 0)
        if number % 3 == 0:
            assert graph.feed({value: fed}, 5000, True) == 0
            fed += 1


def test_a_generator_runs_ahead_within_one_call_only(engine) -> None:
    @df.pyflow
    def many(a):
        for number in range(50):
            yield 100 * a + number

    value, opener = df.FlowData(name="a"), df.FlowData(name="b")
    source, sink = many.fnode(), df.pyflow(user.gated).fnode()
    source.set_attr("_flow_attr_depth", 2)
    sink.set_attr("_flow_attr_depth", 2)
    graph = df.FlowGraph([sink(source(value), opener)])
    assert [graph.feed({value: number}, 300, True) for number in range(4)] == [0, 0, 0, FULL]
    for wanted in [100 * number + item for number in range(3) for item in range(50)]:
        assert graph.feed({opener: 0}, 5000, True) == 0
        assert graph.fetch(timeout=5000) == ([wanted], 0)
