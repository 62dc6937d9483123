"""Each transaction has one outcome, also where a function fails after it has sent; a node has one place in a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dataflow as df
from dataflow import flow_func as ff


class Forgetful:
    @ff.proc_wrapper("i0,o0")
    def pass_on(self, context: Any, messages: list[Any]) -> Any:
        context.set_output(0, messages[0])  # and no `return 0`, which counts as a failure


class Pair:
    @ff.proc_wrapper("i0,i1,o0")
    def together(self, context: Any, messages: list[Any]) -> int:
        pair = context.alloc_tensor_msg([2], df.DT_INT32)
        pair.get_tensor().numpy()[:] = [message.get_tensor().numpy()[0] for message in messages]
        return int(context.set_output(0, pair))


def node(kind: type, inputs: int) -> df.FlowNode:
    flow_node, point = df.FlowNode(inputs, 1), df.FuncProcessPoint(py_func=kind)
    flow_node.add_process_point(point)
    for index in range(inputs):
        flow_node.map_input(index, point, index)
    flow_node.map_output(0, point, 0)
    return flow_node


def test_a_failure_after_the_result_does_not_shift_pairs(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(Pair, 2)(node(Forgetful, 1)(data), data)])
    for number in (1, 2, 3):
        assert graph.feed_data({data: np.array([number], np.int32)}) == 0
    for number in (1, 2, 3):
        (value,), info, code = graph.fetch_data(timeout=20000)
        assert (value.numpy().tolist(), info.transaction_id, code) == ([number, number], number, 0)
    assert graph.fetch_data(timeout=0)[2] == 207013


@df.pyflow
def counted(until: int) -> Any:
    yield from range(until)
    raise ValueError("no more")


def test_a_generator_that_fails_says_so_after_its_results(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([counted.fnode()(data)])
    assert graph.feed({data: 2}) == 0
    assert [graph.fetch(timeout=20000) for _ in range(3)] == [([0], 0), ([1], 0), ([], 145000)]


def test_a_node_is_connected_once(engine: str) -> None:
    first, second, place = df.FlowData(), df.FlowData(), counted.fnode()
    output = place(first)
    assert place(first) is output
    df.FlowGraph([output])
    place(second)
    with pytest.raises(df.DfException, match=r"input 0 of node .* was connected to .*, then to ") as error:
        df.FlowGraph([output])
    assert error.value.error_code == 145000
