"""Batches on an input, on every engine."""

from __future__ import annotations

import time

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import EMPTY, EOS, SEG, batched, node, value


def feed(graph: df.FlowGraph, data: df.FlowData, *values, info: df.FlowInfo | None = None) -> None:
    for each in values:
        assert graph.feed_data({data: np.asarray(each, np.int32)}, info) == 0


def span(start: int, end: int, flags: int = 0) -> df.FlowInfo:
    return df.FlowInfo(start, end, flags)


def next_batch(graph: df.FlowGraph) -> tuple[object, int, int, int]:
    """(values or code, start, end, flags); None for a message without data."""
    tensors, info, code = graph.fetch_data(timeout=5000)
    content = code or (tensors[0].numpy().tolist() if tensors else None)
    return content, info.start_time, info.end_time, info.flow_flags


# ---- by count ------------------------------------------------------------------------------------------------------------


def test_a_count_batch_waits_until_it_is_full(engine) -> None:
    data, graph = batched(df.CountBatch(2))
    feed(graph, data, [1, 2, 3])
    assert graph.fetch_data(timeout=50)[2] == EMPTY
    feed(graph, data, [4, 5, 6], [7, 8, 9], [0, 0, 0])
    [tensor], info, code = graph.fetch_data(timeout=5000)
    assert code == 0 and tensor.numpy().shape == (2, 3) and tensor.numpy().dtype == np.int32
    assert tensor.numpy().tolist() == [[1, 2, 3], [4, 5, 6]] and info.transaction_id == 1
    [tensor], info, code = graph.fetch_data(timeout=5000)
    assert tensor.numpy().tolist() == [[7, 8, 9], [0, 0, 0]] and info.transaction_id == 3


def test_a_batch_takes_several_of_one_input_for_each_of_the_other(engine) -> None:
    """Two of one input for each of the other."""

    @df.pyflow
    def scale(many, factor):
        return df.Tensor(many.numpy() * factor.numpy())

    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    flow_node = scale.fnode()
    flow_node.map_input(0, flow_node.point, 0, [df.CountBatch(2)])
    graph = df.FlowGraph([flow_node(a, b)])
    for number in (1, 2, 3, 4):
        assert graph.feed_data({a: [number]}, partial_inputs=True) == 0
    for factor, wanted in ((10, [[10], [20]]), (100, [[300], [400]])):
        assert graph.feed_data({b: [factor]}, partial_inputs=True) == 0
        assert value(graph.fetch_data(timeout=5000)) == wanted


def test_stream_function_gets_batches(engine) -> None:
    @df.pyflow(stream_input="Queue")
    def read(a):
        return a.get().numpy().tolist()

    data = df.FlowData()
    flow_node = read.fnode()
    flow_node.map_input(0, flow_node.point, 0, [df.CountBatch(3)])
    graph = df.FlowGraph([flow_node(data)])
    feed(graph, data, [1], [2], [3])
    assert graph.fetch(timeout=5000) == ([[[1], [2], [3]]], 0)


@pytest.mark.parametrize(
    ("stride", "wanted"),
    [(1, [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]), (2, [[1, 2, 3], [3, 4, 5]]), (3, [[1, 2, 3], [4, 5, 6]])],
)
def test_a_count_batch_slides_by_its_stride(engine, stride, wanted) -> None:
    data, graph = batched(df.CountBatch(3, stride))
    feed(graph, data, 1, 2, 3, 4, 5, 6)
    assert [value(graph.fetch_data(timeout=5000)) for _ in wanted] == wanted
    assert graph.fetch_data(timeout=0)[2] == EMPTY


@pytest.mark.parametrize("padding", [False, True])
def test_a_count_batch_leaves_when_its_time_is_over(engine, padding) -> None:
    data, graph = batched(df.CountBatch(3, timeout=200, padding=padding))
    feed(graph, data, [0, 0], [0, 0], [0, 0])
    assert value(graph.fetch_data(timeout=5000)) == [[0, 0]] * 3
    rest = [[0, 0]] if padding else []
    for turn in (1, 2):  # the second time shows that the timer runs anew
        began = time.monotonic()
        feed(graph, data, [turn, 1], [turn, 2])
        assert value(graph.fetch_data(timeout=5000)) == [[turn, 1], [turn, 2], *rest]
        assert 0.15 < time.monotonic() - began < 10
    assert graph.fetch_data(timeout=300)[2] == EMPTY  # nothing is there that time could bring out


def test_padding_does_not_stay(engine) -> None:
    data, graph = batched(df.CountBatch(3, slide_stride=1, timeout=400, padding=True))
    feed(graph, data, 1, 2)
    assert value(graph.fetch_data(timeout=5000)) == [1, 2, 0]
    feed(graph, data, 3, 4)
    assert value(graph.fetch_data(timeout=5000)) == [2, 3, 4]


def test_items_of_other_shape_or_type_fail_the_batch_and_the_next_is_clean(engine) -> None:
    data, graph = batched(df.CountBatch(2))
    for bad in (np.zeros(3, np.int32), np.zeros(2, np.float32)):
        assert graph.feed_data({data: np.array([1, 2], np.int32)}) == 0
        assert graph.feed_data({data: bad}) == 0
        assert graph.fetch_data(timeout=5000)[2] == 164000
        feed(graph, data, [5, 6], [7, 8])
        assert value(graph.fetch_data(timeout=5000)) == [[5, 6], [7, 8]]


def test_a_failed_message_ends_its_batch_with_its_own_code(engine) -> None:
    data = df.FlowData()
    flow_node = node(user.Relay, 1, 1)
    flow_node.map_input(0, flow_node.point, 0, [df.CountBatch(2)])
    graph = df.FlowGraph([flow_node(node(user.Relay, 1, 1)(data))])
    feed(graph, data, [1], [-1], [2], [3])  # -1 fails in the first node
    assert graph.fetch_data(timeout=5000)[2] == 9900007
    assert value(graph.fetch_data(timeout=5000)) == [[2], [3]]


def test_end_of_stream_flushes(engine) -> None:
    data, graph = batched(df.CountBatch(3))
    feed(graph, data, [1])
    assert graph.feed_data({}, df.FlowInfo(flow_flags=EOS)) == 0
    assert next_batch(graph)[0] == [[1]] and next_batch(graph) == (None, 0, 0, EOS)


# ---- by time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dimension", "wanted"), [(0, [1, 2, 3, 4]), (-1, [[1, 2], [3, 4]])])
def test_a_time_batch_joins_what_fills_its_window(engine, dimension, wanted) -> None:
    data, graph = batched(df.TimeBatch(5, dimension))
    feed(graph, data, [1, 2], info=span(0, 2))
    assert graph.fetch_data(timeout=50)[2] == EMPTY
    feed(graph, data, [3, 4], info=span(2, 5))
    assert next_batch(graph) == (wanted, 0, 5, 0)
    feed(graph, data, [5, 6], info=span(5, 10))
    assert next_batch(graph)[1:] == (5, 10, 0)


def test_a_time_batch_joins_along_the_second_dimension(engine) -> None:
    data, graph = batched(df.TimeBatch(4, 1))
    feed(graph, data, [[1], [2]], info=span(0, 1))
    feed(graph, data, [[3, 4], [5, 6]], info=span(1, 4))
    assert next_batch(graph) == ([[1, 3, 4], [2, 5, 6]], 0, 4, 0)


@pytest.mark.parametrize("flag", [EOS, SEG])
@pytest.mark.parametrize("window", [10, -1])
def test_flags_flush_an_unfinished_time_batch(engine, window, flag) -> None:
    data, graph = batched(df.TimeBatch(window, 0))
    feed(graph, data, [1], info=span(0, 2))
    feed(graph, data, [2], info=span(2, 3, flag))
    assert next_batch(graph) == ([1, 2], 0, 3, flag)
    feed(graph, data, [3], info=span(3, 4, flag))
    assert next_batch(graph) == ([3], 3, 4, flag)


@pytest.mark.parametrize("flag", [EOS, SEG])
def test_drop_remainder_throws_away_an_unfinished_time_batch(engine, flag) -> None:
    data, graph = batched(df.TimeBatch(10, 0, True))
    feed(graph, data, [1], info=span(0, 2))
    feed(graph, data, [2], info=span(2, 3, flag))
    feed(graph, data, [3], info=span(3, 13))
    if flag == EOS:
        content, *_, flags = next_batch(graph)
        assert (content, flags) == (None, EOS)  # the data is gone, the end is told
    assert next_batch(graph)[:3] == ([3], 3, 13)
    assert graph.fetch_data(timeout=0)[2] == EMPTY


def test_an_end_without_data_flushes_or_passes(engine) -> None:
    data, graph = batched(df.TimeBatch(-1, 0))
    assert graph.feed_data(None, df.FlowInfo(flow_flags=EOS)) == 0
    assert next_batch(graph)[0] is None  # nothing was cached: the end passes
    feed(graph, data, [1], info=span(0, 2))
    feed(graph, data, [2], info=span(2, 3))
    assert graph.feed_data(None, df.FlowInfo(3, 3, EOS)) == 0
    content, start, end, flags = next_batch(graph)
    assert (content, start, end, flags) == ([1, 2], 0, 3, EOS)


@pytest.mark.parametrize(
    "spans",
    [[(0, 4), (3, 5)], [(0, 4), (2, 1)], [(5, 4)], [(0, 4), (4, 12)]],
    ids=["overlap", "backwards", "end before start", "longer than the window"],
)
def test_wrong_times_fail_the_batch_and_the_next_is_clean(engine, spans) -> None:
    data, graph = batched(df.TimeBatch(10, 0))
    for number, (start, end) in enumerate(spans):
        feed(graph, data, [number], info=span(start, end))
    assert graph.fetch_data(timeout=5000)[2] == 164000
    feed(graph, data, [7], info=span(20, 24))
    feed(graph, data, [8], info=span(24, 30))
    assert next_batch(graph) == ([7, 8], 20, 30, 0)


def test_empty_message_without_an_end(engine) -> None:
    data, graph = batched(df.TimeBatch(10, 0))
    assert graph.feed({data: None}) == 0
    assert graph.fetch_data(timeout=5000)[2] == 164000
    feed(graph, data, [7], info=span(0, 10))
    assert next_batch(graph)[0] == [7]


def test_kinds_have_to_agree(engine) -> None:
    data, graph = batched(df.TimeBatch(10, -1))
    feed(graph, data, [1, 2], info=span(0, 2))
    feed(graph, data, [1, 2, 3], info=span(2, 4))
    assert graph.fetch_data(timeout=5000)[2] == 164000


@pytest.mark.parametrize(
    "batch", [df.TimeBatch(0), df.TimeBatch(-2), df.CountBatch(0), df.CountBatch(2, 3), df.CountBatch(2, -1)]
)
def test_values_are_checked_at_the_first_feed(engine, batch) -> None:
    data, graph = batched(batch)
    with pytest.raises(df.DfException) as error:
        graph.feed_data({data: [1]})
    assert error.value.error_code == 145000


class Shapes:
    """Counts what it was called with."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        tensor = input_flow_msgs[0].get_tensor()
        return run_context.set_output(0, np.array(tensor.get_shape()))


def test_batches_larger_than_an_arena_are_let_go_again(engine) -> None:
    """Items that travel in shared memory, batched and let go: more than any arena would hold."""
    data, graph = batched(df.CountBatch(4), Shapes)
    big = np.ones((250, 1000), np.int32)
    for _ in range(10):
        for _ in range(4):
            assert graph.feed_data({data: big}, timeout=5000) == 0
        assert value(graph.fetch_data(timeout=5000)) == [4, 250, 1000]
