"""Alignment and exceptions of transactions, on every engine."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import EMPTY, FAILED, batched, node, value


class Swap:
    """Holds every odd transaction back until the even one after it has gone."""

    def __init__(self) -> None:
        self.held = None

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        message = input_flow_msgs[0]
        if message.get_transaction_id() % 2:
            self.held = np.array(message.get_tensor().numpy()), message.get_transaction_id()
            return 0
        run_context.set_output(0, message)
        again = run_context.alloc_tensor_msg([1], np.int64)
        again.get_tensor().numpy()[:] = self.held[0]
        again.set_transaction_id(self.held[1])
        return run_context.set_output(0, again)


class Lose:
    """Loses transactions up to the one that its parameter names."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        code, self.upto = meta_params.get_attr_int("upto")
        return code

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        message = input_flow_msgs[0]
        return run_context.set_output(0, message) if message.get_transaction_id() > self.upto else 0


def two_paths(other: df.FlowNode, join: bool, *align) -> tuple[df.FlowData, df.FlowGraph]:
    """One path passes everything on, the other goes through a node; they meet in a node or at the fetch."""
    data = df.FlowData()
    paths = node(user.Relay, 1, 1)(data), other(data)
    graph = df.FlowGraph([node(user.Sum, 2, 1)(*paths)] if join else list(paths))
    if align:
        graph.set_inputs_align_attrs(*align)
    return data, graph


def feed(graph: df.FlowGraph, data: df.FlowData, *values: int) -> None:
    for each in values:
        assert graph.feed_data({data: [each]}, timeout=5000) == 0


@pytest.mark.on_ray
@pytest.mark.parametrize("join", [True, False])
def test_groups_match_by_transaction(engine, join) -> None:
    data, graph = two_paths(node(Swap, 1, 1), join, 16, 5000, False)
    feed(graph, data, 10, 20, 30, 40)
    pairs = {}
    for _ in range(4):
        tensors, info, code = graph.fetch_data(timeout=5000)
        assert code == 0
        pairs[info.transaction_id] = np.concatenate([tensor.numpy() for tensor in tensors])[:2].tolist()
    assert pairs == {number: [10 * number, 10 * number] for number in (1, 2, 3, 4)}


def test_without_alignment_they_meet_as_they_come(engine) -> None:
    data, graph = two_paths(node(Swap, 1, 1), True)
    feed(graph, data, 10, 20)
    assert [value(graph.fetch_data(timeout=5000))[:2] for _ in range(2)] == [[10, 20], [20, 10]]


def test_an_overdue_group_is_dropped_at_a_node(engine) -> None:
    data, graph = two_paths(node(Lose, 1, 1, upto=2), True, 16, 200, True)
    feed(graph, data, 10, 20, 30)
    assert value(graph.fetch_data(timeout=5000))[:2] == [30, 30]
    assert graph.fetch_data(timeout=400)[2] == EMPTY


def test_an_overdue_group_reaches_a_node_with_empty_messages(engine) -> None:
    data, graph = two_paths(node(Lose, 1, 1, upto=2), True, 16, 200, False)
    began = time.monotonic()
    feed(graph, data, 10, 20, 30)
    assert value(graph.fetch_data(timeout=5000)) == [30, 30, 0, 0]
    for number in (1, 2):
        tensors, info, code = graph.fetch_data(timeout=5000)
        assert code == 0 and info.transaction_id == number
        assert tensors[0].numpy().tolist() == [10 * number, -1000, 0, 364000]
    assert 0.19 < time.monotonic() - began < 10


def test_an_overdue_group_is_dropped_at_the_fetch(engine) -> None:
    data, graph = two_paths(node(Lose, 1, 1, upto=1), False, 16, 200, True)
    feed(graph, data, 10)
    assert graph.fetch_data(timeout=400)[2] == EMPTY
    feed(graph, data, 20)
    tensors, _, code = graph.fetch_data(timeout=5000)
    assert code == 0 and [tensor.numpy().tolist() for tensor in tensors] == [[20], [20]]


def test_an_overdue_group_reaches_the_fetch_with_a_code(engine) -> None:
    data, graph = two_paths(node(Lose, 1, 1, upto=1), False, 16, 200, False)
    feed(graph, data, 10)
    began = time.monotonic()
    tensors, info, code = graph.fetch_data(timeout=5000)
    assert (tensors, info.transaction_id, code) == ([], 1, 345104)
    assert 0.15 < time.monotonic() - began < 10
    feed(graph, data, 20)
    assert graph.fetch_data(timeout=5000)[2] == 0


@pytest.mark.parametrize("join", [True, False])
@pytest.mark.parametrize("dropout", [True, False])
def test_a_full_cache_gives_up_the_oldest_group(engine, join, dropout) -> None:
    data, graph = two_paths(node(Lose, 1, 1, upto=3), join, 2, -1, dropout)
    feed(graph, data, 10, 20)
    assert graph.fetch_data(timeout=100)[2] == EMPTY  # two groups may wait for ever
    feed(graph, data, 30)
    tensors, info, code = graph.fetch_data(timeout=100 if dropout else 5000)
    if dropout:
        assert code == EMPTY
    elif join:
        assert code == 0 and tensors[0].numpy().tolist() == [10, -1000, 0, 364000]
    else:
        assert (code, info.transaction_id) == (345104, 1)
    feed(graph, data, 40)  # complete, and goes before those that wait
    tensors, info, code = graph.fetch_data(timeout=5000)
    if join or info.transaction_id == 4:
        assert code == 0 and info.transaction_id in (2, 4)
    else:
        assert (code, info.transaction_id) == (345104, 2)


def test_fetch_sets_may_not_overlap(engine) -> None:
    data, graph = two_paths(node(user.Relay, 1, 1), False, 16, 200, False)
    feed(graph, data, 10)
    assert graph.fetch_data([1, 0], 5000)[2] == 0
    assert graph.fetch_data([0], 0)[2] == FAILED and graph.fetch_data([0, 1], 0)[2] == EMPTY
    feed(graph, data, 20)
    assert [each.numpy().tolist() for each in graph.fetch([1], 5000)[0]] == [[20]]  # fetch does not align


def test_two_threads_wait_for_their_groups(engine) -> None:
    """A group that is given up while another thread does the waiting is told in time."""
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    paths = [node(user.Relay, 1, 1)(a), node(user.Relay, 1, 1)(a), node(user.Relay, 1, 1)(b)]
    graph = df.FlowGraph([*paths, node(Lose, 1, 1, upto=1)(b)])
    graph.set_inputs_align_attrs(16, 200, False)
    assert graph.feed_data({a: [1]}, partial_inputs=True) == 0
    assert graph.fetch_data([0, 1], 5000)[2] == 0
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(graph.fetch_data, [0, 1], 20000)
        second = pool.submit(graph.fetch_data, [2, 3], 20000)
        assert graph.feed_data({b: [1]}, partial_inputs=True) == 0
        assert second.result(3)[2] == 345104
        assert graph.feed_data({a: [2]}, partial_inputs=True) == 0 and first.result(3)[2] == 0


# ---- exceptions ----------------------------------------------------------------------------------------------------------


class Raises:
    """Ends transactions 1 and 3, twice each."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        if not input_flow_msgs:
            return 0
        code = {1: -101, 3: -100}.get(input_flow_msgs[0].get_transaction_id())
        if code is None:
            return run_context.set_output(0, input_flow_msgs[0])
        run_context.raise_exception(code, 7)
        run_context.raise_exception(code - 1000, 8)
        return 0


class Hears:
    """Passes on what it gets, with all that it was told of exceptions."""

    def __init__(self) -> None:
        self.heard = []

    @ff.proc_wrapper("i0,i1,o0")
    def go(self, run_context, input_flow_msgs):
        first, again = run_context.get_exception(), run_context.get_exception()
        if not input_flow_msgs:
            self.heard += [*first[1:], int(again[0])] if first[0] else ["nothing was raised"]
            return 0
        assert not first[0]
        return run_context.set_output(0, np.array([int(input_flow_msgs[0].get_tensor().numpy()[0]), *self.heard]))


def raising(*nodes_between: df.FlowNode) -> tuple[df.FlowData, df.FlowGraph]:
    data = df.FlowData()
    passed = data
    for each in nodes_between:
        passed = each(passed)
    graph = df.FlowGraph([node(Hears, 2, 1)(node(Raises, 1, 1)(data), passed)])
    graph.set_inputs_align_attrs(64, -1, False)
    graph.set_exception_catch(True)
    return data, graph


def demo(data: df.FlowData, graph: df.FlowGraph) -> None:
    for number in range(1, 11):
        info = df.FlowInfo(number, 2 * number)
        info.set_user_data(bytes([number]))
        assert graph.feed_data({data: [number]}, info) == 0
    good, raised = [], []
    for _ in range(10):
        tensors, info, code = graph.fetch_data(timeout=5000)
        number = info.get_user_data(1)[0]
        assert (info.start_time, info.end_time) == (number, 2 * number)
        if code:
            assert (tensors, info.transaction_id, code) == ([], 0, 345103)
            raised.append(number)
        else:
            assert info.transaction_id == number == tensors[0].numpy()[0]
            good.append(number)
    assert (raised, good) == ([1, 3], [2, 4, 5, 6, 7, 8, 9, 10])
    assert graph.fetch_data(timeout=50)[2] == EMPTY
    assert graph.feed_data({data: [11]}) == 0
    assert value(graph.fetch_data(timeout=5000)) == [11, -101, 7, 0, -100, 7, 0]


@pytest.mark.on_ray
def test_a_raised_exception_reaches_every_node_and_the_fetch(engine) -> None:
    demo(*raising(node(user.Relay, 1, 1)))


def test_exceptions_pass_plain_functions_on_their_way(engine) -> None:
    demo(*raising(df.pyflow(user.same).fnode(), df.pyflow(user.same).fnode()))


def test_cached_results_of_the_transaction_go(engine) -> None:
    """A result that came before the exception does not wait for ever, nor meet another's."""
    data = df.FlowData()
    graph = df.FlowGraph([node(user.Relay, 1, 1)(data), node(Raises, 1, 1)(data)])
    graph.set_inputs_align_attrs(64, -1, False)
    graph.set_exception_catch(True)
    for number in (1, 2, 3, 4):
        assert graph.feed_data({data: [number]}) == 0
    answers = [graph.fetch_data(timeout=5000) for _ in range(4)]
    assert sorted(code for *_, code in answers) == [0, 0, 345103, 345103]
    good = [[tensor.numpy().tolist() for tensor in tensors] for tensors, _, code in answers if not code]
    assert good == [[[2], [2]], [[4], [4]]]


def test_more_exceptions_than_are_remembered_still_arrive(engine) -> None:
    """More than are remembered."""

    class Always:
        @ff.proc_wrapper("i0,o0")
        def go(self, run_context, input_flow_msgs):
            if input_flow_msgs:
                run_context.raise_exception(-5, 0)
            return 0

    data = df.FlowData()
    graph = df.FlowGraph([node(Always, 1, 1)(data)])
    graph.set_inputs_align_attrs(64, -1, False)
    graph.set_exception_catch(True)
    for _ in range(1100):
        assert graph.feed_data({data: [1]}, timeout=5000) == 0
        assert graph.fetch_data(timeout=5000)[2] == 345103
    assert graph.fetch_data(timeout=0)[2] == EMPTY


def test_catch_needs_alignment_and_no_batches(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(user.Relay, 1, 1)(data)])
    graph.set_exception_catch(True)
    for batch in (None, df.CountBatch(2), df.TimeBatch(2)):
        if batch is not None:
            data, graph = batched(batch)
            graph.set_inputs_align_attrs(64, -1, False)
            graph.set_exception_catch(True)
        with pytest.raises(df.DfException) as error:
            graph.feed_data({data: [1]})
        assert error.value.error_code == 145000


def test_raising_without_catch_fails_that_call_only(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([node(Raises, 1, 1)(data)])
    for number in (1, 2):
        assert graph.feed_data({data: [number]}) == 0
    assert graph.fetch_data(timeout=5000)[2] == 564000  # the call fails; contained, the node goes on
    assert value(graph.fetch_data(timeout=5000)) == [2]


def test_catching_exceptions_keeps_the_users_transaction_ids(engine) -> None:
    data, graph = raising(node(user.Relay, 1, 1))
    assert graph.feed_data({data: [5]}, df.FlowInfo(transaction_id=50)) == 0
    assert graph.fetch_data(timeout=5000)[1].transaction_id == 50
    assert graph.feed_data({data: [5]}, df.FlowInfo(transaction_id=49)) == 145000
