"""Feed and fetch as the program sees them: arguments, codes, conversions, on the inline engine."""

from __future__ import annotations

import time

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from softnpu.flow.application import control

FAILED = 0xFFFFFFFF


@df.pyflow
def add(a, b):
    return a + b


@df.pyflow
def same(a):
    return a


class Relay:
    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        msg = input_flow_msgs[0]
        if msg.get_tensor() is None:
            self.flags = msg.get_flow_flags()
            return run_context.set_output(0, run_context.alloc_empty_data_msg())
        array = msg.get_tensor().numpy()
        if array.ravel()[0] == -1:
            failed = run_context.alloc_empty_data_msg()
            failed.set_ret_code(9900007)
            return run_context.set_output(0, failed)
        return run_context.set_output(0, msg)


def relay(schema: df.TensorDesc | None = None):
    data = df.FlowData(schema=schema)
    node = df.FlowNode(1, 1)
    node.add_process_point(df.FuncProcessPoint(py_func=Relay))
    return data, df.FlowGraph([node(data)])


def pair():
    data = df.FlowData(), df.FlowData()
    return (*data, df.FlowGraph([add.fnode()(*data)]))


def test_a_function_adds_the_two_arrays_that_were_fed(flow) -> None:
    a, b, graph = pair()
    assert graph.feed({a: np.array([[1, 2]], np.int32), b: np.array([[2, 3]], np.int32)}) == 0
    [result], code = graph.fetch()
    assert code == 0 and type(result) is np.ndarray and result.dtype == np.int32 and result.tolist() == [[3, 5]]


def test_codes_of_wrong_arguments(flow, capsys) -> None:
    a, b, graph = pair()
    other = df.FlowData()
    for feed in (graph.feed, graph.feed_data):
        for bad in ({a: 1}, {other: 1}, {}, None):
            assert feed(bad) == 145000
        assert feed({other: 1}, partial_inputs=True) == 145000
    assert graph.feed_data({}, df.FlowInfo()) == 145000
    assert graph.feed_data({a: 1, b: 1}, flow_info=3) == 145000
    assert graph.feed_data({a: np.zeros(1, np.complex64), b: 1}) == 145022
    assert graph.feed_data({a: np.zeros((4, 4))[:, ::2], b: 1}) == 145000
    with pytest.raises(ValueError):
        graph.feed_data({a: [[1], [1, 2]], b: 1})
    assert "FlowData_1" in capsys.readouterr().out
    assert graph.feed({a: 1, b: 2, other: 3}) == 0 and graph.fetch() == ([3], 0)


def test_a_schema_converts_for_feed_data_and_checks_for_feed(flow) -> None:
    data, graph = relay(df.TensorDesc(df.DT_FLOAT, [2]))
    assert graph.feed_data({data: [1, 2]}) == 0
    [tensor], _, code = graph.fetch_data()
    assert code == 0 and tensor.get_data_type() is np.float32 and tensor.numpy().tolist() == [1.0, 2.0]
    assert graph.feed_data({data: df.Tensor(np.array([3, 4]))}) == 0  # converted too
    assert graph.fetch_data()[0][0].get_data_type() is np.float32
    assert graph.feed_data({data: [1, 2, 3]}) == 145021
    assert graph.feed({data: df.Tensor([1, 2])}) == 145000  # feed refuses what differs
    assert graph.feed({data: df.Tensor(np.array([1, 2], np.float32))}) == 0


def test_timeouts_of_feed_and_fetch_are_checked_and_kept(flow) -> None:
    a, b, graph = pair()
    assert graph.fetch(timeout=0) == ([], FAILED)
    tensors, info, code = graph.fetch_data(timeout=0)
    assert (tensors, code) == ([], FAILED) and isinstance(info, df.FlowInfo)
    assert graph.feed({a: 1, b: 1}, timeout=-2) == FAILED
    assert graph.feed({a: 1}, partial_inputs=True) == 0
    began = time.monotonic()
    assert graph.fetch(timeout=120) == ([], 207013)
    assert 0.1 <= time.monotonic() - began < 10
    assert graph.fetch(timeout=-2) == ([], FAILED)
    with pytest.raises(TypeError):
        graph.fetch(timeout=None)


def test_indexes_choose_outputs_and_wrong_ones_are_told(flow) -> None:
    a = df.FlowData()
    first, second = same.fnode(), same.fnode()
    mid = first(a)
    graph = df.FlowGraph([second(mid), mid])
    for value in (1, 2):
        graph.feed({a: value})
    assert graph.fetch([1]) == ([1], 0) and graph.fetch([-1]) == ([2], 0)
    assert graph.fetch([0]) == ([1], 0) and graph.fetch([0]) == ([2], 0)
    graph.feed({a: 3})
    assert graph.fetch([1, 0]) == ([3, 3], 0)
    for bad in ([2], [-3], [0, 0], [0, -2]):
        assert graph.fetch(bad) == ([], 145000)
        tensors, info, code = graph.fetch_data(bad)
        assert (tensors, info.transaction_id, code) == ([], 0, 145000)
    for call in (lambda: graph.fetch(["0"]), lambda: graph.fetch_data([0.5])):
        with pytest.raises(TypeError):
            call()


def test_flow_info_comes_back_as_it_was_fed(flow) -> None:
    data, graph = relay()
    for number in (1, 2, 3):
        info = df.FlowInfo(10 * number, 20 * number, df.FlowFlag.DATA_FLOW_FLAG_SEG)
        info.set_user_data(bytes([number]) * 64)
        assert graph.feed_data({data: [number]}, info) == 0
        _, back, code = graph.fetch_data()
        assert code == 0 and (back.start_time, back.end_time, back.flow_flags) == (10 * number, 20 * number, 2)
        assert back.transaction_id == number and back.user_data == bytes([number]) * 64


def test_own_transaction_ids_may_repeat_and_not_go_back(flow) -> None:
    data, graph = relay()
    graph.set_contains_n_mapping_node(True)

    def feed(number: int) -> int:
        return graph.feed_data({data: [1]}, df.FlowInfo(transaction_id=number))

    assert [feed(5), feed(5), feed(9), feed(8)] == [0, 0, 0, 145000]
    assert [graph.fetch_data()[1].transaction_id for _ in range(3)] == [5, 5, 9]
    assert feed(2**64 - 1) == 145000 and feed(-1) == 145000
    plain, other = relay()
    assert other.feed_data({plain: [1]}, df.FlowInfo(transaction_id=50)) == 0
    assert other.fetch_data()[1].transaction_id == 1


def test_partial_inputs_wait_for_the_others(flow) -> None:
    a, b, graph = pair()
    assert graph.feed({a: 1}, partial_inputs=True) == 0 and graph.fetch(timeout=0) == ([], 207013)
    assert graph.feed({b: 5}, partial_inputs=True) == 0 and graph.fetch() == ([6], 0)


def test_an_end_of_stream_passes_without_data(flow) -> None:
    _data, graph = relay()
    for empty in ({}, None):
        assert graph.feed_data(empty, df.FlowInfo(flow_flags=df.FlowFlag.DATA_FLOW_FLAG_EOS)) == 0
        tensors, info, code = graph.fetch_data()
        assert (tensors, info.flow_flags, code) == ([], 1, 0)


def test_none_objects_and_tensors_come_back_as_they_are(flow) -> None:
    a = df.FlowData()
    graph = df.FlowGraph([same.fnode()(a)])
    for value in (None, {"k": [1, "x"]}, "text", b"bytes"):
        assert graph.feed({a: value}) == 0 and graph.fetch() == ([value], 0)
    graph.feed({a: df.Tensor([1, 2])})
    [tensor], code = graph.fetch()
    assert code == 0 and isinstance(tensor, df.Tensor) and tensor.numpy().tolist() == [1, 2]
    with pytest.raises(TypeError):
        graph.feed({a: (value for value in ())})
    graph.feed_data({a: [1, 2]})
    assert isinstance(graph.fetch()[0][0], df.Tensor)  # a function gets tensors from feed_data


def test_a_failed_message_gives_its_code_and_the_next_one_passes(flow, capsys) -> None:
    data, graph = relay()
    graph.feed_data({data: [-1]})
    assert graph.fetch() == ([], 145000)
    graph.feed_data({data: [-1]}, df.FlowInfo(start_time=3))
    tensors, info, code = graph.fetch_data()
    assert (tensors, info.start_time, code) == ([], 3, 9900007)
    graph.feed_data({data: [1]})
    assert graph.fetch_data()[2] == 0


def test_objects_are_not_for_fetch_data(flow, capsys) -> None:
    a = df.FlowData()
    graph = df.FlowGraph([same.fnode()(a)])
    graph.feed({a: "text"})
    tensors, _, code = graph.fetch_data()
    assert (tensors, code) == ([], 145000) and "fetch()" in capsys.readouterr().out


def test_a_graph_that_is_only_compiled_can_be_fed_and_gives_nothing(flow) -> None:
    a = df.FlowData()
    graph = df.FlowGraph([same.fnode()(a)], {"ge.runFlag": "0"})
    assert graph.feed({a: 1}) == 0 and graph.feed({a: 1}) == 0 and graph.fetch(timeout=0) == ([], FAILED)
    with pytest.raises(df.DfException):
        graph.set_exception_catch(True)


def test_a_graph_refuses_work_after_finalize(flow) -> None:
    a = df.FlowData()
    graph = df.FlowGraph([same.fnode()(a)])
    graph.feed({a: 1})
    df.finalize()
    for call in (lambda: graph.feed({a: 1}), lambda: graph.fetch(timeout=0), lambda: graph.fetch_data(timeout=0)):
        with pytest.raises(df.DfException) as error:
            call()
        assert error.value.error_code == 145001


def test_a_closed_graph_is_not_kept(flow) -> None:
    a = df.FlowData()
    graph = df.FlowGraph([same.fnode()(a)])
    graph.feed({a: 1})
    graph.close()
    assert graph not in control.state.graphs


def test_nested_graph_is_fresh(flow) -> None:
    a = df.FlowData()
    graph = df.FlowGraph([same.fnode()(a)])
    assert df.FlowGraphProcessPoint(graph).flow_graph is graph
    with pytest.raises(df.DfException):
        df.FlowGraphProcessPoint(3)
    graph.feed({a: 1})
    with pytest.raises(df.DfException):
        df.FlowGraphProcessPoint(graph)
    node = df.FlowNode(1, 1)
    with pytest.raises(df.DfException, match="add_invoked_closure"):
        node.add_process_point(df.FlowGraphProcessPoint(df.FlowGraph([same.fnode()(a)])))
