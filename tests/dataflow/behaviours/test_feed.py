"""Feed and fetch, on every engine."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import EMPTY, EOS, FAILED, FULL, SEG, node


@df.pyflow
def local_add(a, b):  # pickled by value: what the module calls so is the decorated object
    return a + b


def pair(decorated=None):
    inputs = df.FlowData(), df.FlowData()
    return (*inputs, df.FlowGraph([(decorated or df.pyflow(user.add)).fnode()(*inputs)]))


def relay(schema: df.TensorDesc | None = None):
    data = df.FlowData(schema=schema)
    return data, df.FlowGraph([node(user.Relay, 1, 1)(data)])


def gate(depth: int):
    """A node that takes a value only when its gate is fed too."""
    value, gate = df.FlowData(name="a"), df.FlowData(name="b")
    flow_node = df.pyflow(user.gated).fnode()
    flow_node.set_attr("_flow_attr_depth", depth)
    return value, gate, df.FlowGraph([flow_node(value, gate)])


@pytest.mark.on_ray
@pytest.mark.parametrize("way", ["by name", "by value"])
def test_a_function_pickled_by_name_or_by_value_adds_two_arrays(engine, way) -> None:
    a, b, graph = pair(local_add if way == "by value" else None)
    assert graph.feed({a: np.array([[1, 2]], np.int32), b: np.array([[2, 3]], np.int32)}) == 0
    [result], code = graph.fetch()
    assert code == 0 and type(result) is np.ndarray and result.dtype == np.int32 and result.tolist() == [[3, 5]]


def test_wrong_arguments_of_feed_are_told_by_a_code(engine) -> None:
    a, b, graph = pair()
    for feed in (graph.feed, graph.feed_data):
        for bad in ({a: 1}, {df.FlowData(): 1}, {}, None):
            assert feed(bad) == 145000
    assert graph.feed_data({}, df.FlowInfo(flow_flags=SEG)) == 145000
    assert graph.feed_data({a: 1, b: 1}, flow_info=3) == 145000
    assert graph.feed_data({a: np.zeros(1, np.complex64), b: 1}) == 145022
    with pytest.raises(ValueError):
        graph.feed_data({a: [[1], [1, 2]], b: 1})
    assert graph.fetch(timeout=0) == ([], FAILED)  # none of these has started the graph
    assert graph.feed({a: 1, b: 2}) == 0 and graph.fetch() == ([3], 0)


def test_a_schema_converts_for_feed_data_and_checks_for_feed(engine) -> None:
    data, graph = relay(df.TensorDesc(df.DT_FLOAT, [2]))
    assert graph.feed_data({data: [1, 2]}) == 0
    [tensor], _, code = graph.fetch_data()
    assert code == 0 and tensor.numpy().dtype == np.float32 and tensor.numpy().tolist() == [1.0, 2.0]
    assert graph.feed_data({data: [1, 2, 3]}) == 145021
    assert graph.feed({data: df.Tensor([1, 2])}) == 145000
    assert graph.feed_data({data: [3, 4]}) == 0 and user.value(graph.fetch_data()) == [3.0, 4.0]


def test_a_fetch_waits_no_longer_than_its_timeout(engine) -> None:
    a, b, graph = pair()
    assert graph.fetch(timeout=0) == ([], FAILED) and graph.fetch_data(timeout=0)[2] == FAILED
    assert graph.feed({a: 1, b: 1}, timeout=-2) == FAILED
    assert graph.feed({a: 1}, partial_inputs=True) == 0
    for fetch in (graph.fetch, graph.fetch_data):
        began = time.monotonic()
        assert fetch(timeout=200)[-1] == EMPTY
        assert 0.19 <= time.monotonic() - began < 10
        assert fetch(timeout=0)[-1] == EMPTY and fetch(timeout=-2)[-1] == FAILED
    assert graph.feed({b: 1}, partial_inputs=True) == 0 and graph.fetch(timeout=5000) == ([2], 0)


@pytest.mark.on_ray
def test_a_full_queue_refuses_the_feed_with_all_its_inputs(engine) -> None:
    value, opener, graph = gate(depth=3)
    for number in range(3):
        assert graph.feed({value: number}, timeout=0, partial_inputs=True) == 0
    began = time.monotonic()
    assert graph.feed({value: 99}, timeout=200, partial_inputs=True) == FULL
    assert 0.19 <= time.monotonic() - began < 10
    assert graph.feed({value: 99, opener: 99}, timeout=0) == FULL  # all or none: the gate stays shut
    for number in range(3):
        assert graph.feed({opener: 0}, timeout=5000, partial_inputs=True) == 0
        assert graph.fetch(timeout=5000) == ([number], 0)
    assert graph.feed({value: 7, opener: 0}, timeout=5000) == 0 and graph.fetch(timeout=5000) == ([7], 0)


def test_feed_goes_on_when_there_is_room(engine) -> None:
    value, opener, graph = gate(depth=2)
    for number in (0, 1):
        assert graph.feed({value: number}, partial_inputs=True) == 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(graph.feed, {value: 2}, -1, True)
        for number in (0, 1, 2):
            assert graph.feed({opener: 0}, timeout=5000, partial_inputs=True) == 0
            assert graph.fetch(timeout=5000) == ([number], 0)
        assert waiting.result(5) == 0


@pytest.mark.on_ray
def test_messages_leave_in_the_order_they_were_fed(engine) -> None:
    data = df.FlowData()
    first, second = df.pyflow(user.same).fnode(), df.pyflow(user.same).fnode()
    graph = df.FlowGraph([second(first(data))])
    for number in range(128):
        assert graph.feed({data: number}, timeout=5000) == 0
    assert [graph.fetch(timeout=5000) for _ in range(128)] == [([number], 0) for number in range(128)]
    assert graph.fetch(timeout=0) == ([], EMPTY)


def test_outputs_wait_for_their_fetch(engine) -> None:
    data = df.FlowData()
    middle = df.pyflow(user.same).fnode()(data)
    graph = df.FlowGraph([df.pyflow(user.same).fnode()(middle), middle])
    for number in range(5):
        graph.feed({data: number})
    assert [graph.fetch([1], 5000) for _ in range(5)] == [([number], 0) for number in range(5)]
    assert [graph.fetch([0], 5000) for _ in range(5)] == [([number], 0) for number in range(5)]
    graph.feed({data: 9})
    assert graph.fetch([1, 0], 5000) == ([9, 9], 0)
    for bad in ([2], [-3], [0, 0]):
        assert graph.fetch(bad) == ([], 145000) and graph.fetch_data(bad)[2] == 145000


@pytest.mark.on_ray
def test_flow_info_round_trip(engine) -> None:
    data, graph = relay()
    for number in (1, 2, 3):
        info = df.FlowInfo(10 * number, 20 * number, SEG)
        info.set_user_data(bytes([number]) * 64)
        assert graph.feed_data({data: [number]}, info) == 0
        _, back, code = graph.fetch_data()
        assert code == 0 and (back.start_time, back.end_time, back.flow_flags) == (10 * number, 20 * number, SEG)
        assert back.transaction_id == number and back.user_data == bytes([number]) * 64


class Header:
    """Shows the user data it was called with, then sends messages whose envelopes it changed."""

    @ff.proc_wrapper("i0,i1,o0,o1")
    def go(self, run_context, input_flow_msgs):
        word = run_context.get_user_data(4, 2)
        untouched = run_context.alloc_tensor_msg([4], np.uint8)
        untouched.get_tensor().numpy()[:] = list(word)
        changed = run_context.alloc_tensor_msg([1], df.DT_INT32)
        changed.get_tensor().numpy()[0] = len(run_context.get_user_data(64))
        changed.set_start_time(77)
        changed.set_flow_flags(SEG)
        changed.set_transaction_id(500)
        return run_context.set_output(0, untouched) or run_context.set_output(1, changed)


def test_header_of_the_first_input_with_data(engine) -> None:
    a, b = df.FlowData(name="a"), df.FlowData(name="b")
    graph = df.FlowGraph(list(node(Header, 2, 2)(a, b)))
    info = df.FlowInfo(3, 5, 0)
    info.set_user_data(b"abcd", 2)
    assert graph.feed({a: None}, partial_inputs=True) == 0
    assert graph.feed_data({b: [1]}, info, partial_inputs=True) == 0
    [word], back, code = graph.fetch_data([0], 5000)
    assert code == 0 and word.numpy().tobytes() == b"abcd"
    assert (back.start_time, back.end_time, back.flow_flags, back.transaction_id) == (3, 5, 0, 1)
    assert back.get_user_data(4, 2) == b"abcd"
    [size], back, code = graph.fetch_data([1], 5000)
    assert code == 0 and size.numpy().tolist() == [64]
    assert (back.start_time, back.end_time, back.flow_flags, back.transaction_id) == (77, 5, SEG, 500)


def test_own_ids_need_an_n_mapping(engine) -> None:
    data, plain = relay()
    assert plain.feed_data({data: [1]}, df.FlowInfo(transaction_id=50)) == 0
    assert plain.fetch_data()[1].transaction_id == 1
    data, graph = relay()
    graph.set_contains_n_mapping_node(True)

    def feed(number: int) -> int:
        return graph.feed_data({data: [1]}, df.FlowInfo(transaction_id=number))

    assert [feed(5), feed(5), feed(9), feed(8), feed(0)] == [0, 0, 0, 145000, 0]
    assert [graph.fetch_data(timeout=5000)[1].transaction_id for _ in range(4)] == [5, 5, 9, 10]
    assert feed(2**64 - 1) == 145000


@pytest.mark.parametrize("cause", ["batch", "stream"])
def test_n_mapping_is_seen(engine, cause) -> None:
    data = df.FlowData()
    if cause == "batch":
        data, graph = user.batched(df.CountBatch(1))
    else:
        reader = df.pyflow(stream_input="Queue")(_first).fnode()
        other = node(user.Relay, 1, 1)
        graph = df.FlowGraph([other(data), reader(data)])
    assert graph.feed_data({data: [1]}, df.FlowInfo(transaction_id=50)) == 0
    assert graph.fetch_data([0], 5000)[1].transaction_id == 50


def _first(queue):
    return queue.get()


def test_partial_inputs_meet_in_the_order_they_came(engine) -> None:
    a, b = df.FlowData(), df.FlowData()
    graph = df.FlowGraph([df.pyflow(user.add).fnode()(a, b), df.pyflow(user.same).fnode()(a)])
    assert graph.feed({a: 1}) == 145000
    assert graph.feed({a: 1}, partial_inputs=True) == 0 and graph.feed({a: 2}, partial_inputs=True) == 0
    assert graph.fetch([1], 5000) == ([1], 0) and graph.fetch([1], 5000) == ([2], 0)
    assert graph.fetch([0], 50) == ([], EMPTY)
    assert graph.feed({b: 10}, partial_inputs=True) == 0 and graph.fetch([0], 5000) == ([11], 0)
    assert graph.feed({b: 20}, partial_inputs=True) == 0 and graph.fetch([0], 5000) == ([22], 0)


class Nulls:
    """What its inputs carry, or don't."""

    @ff.proc_wrapper("i0,i1,o0,o1")
    def go(self, run_context, input_flow_msgs):
        seen = [[msg.get_tensor() is None, msg.get_flow_flags()] for msg in input_flow_msgs]
        run_context.set_output(0, np.array(seen, np.int32))
        return run_context.set_output(1, run_context.alloc_empty_data_msg())


@pytest.mark.parametrize("nothing", [{}, None])
def test_an_end_of_stream_reaches_functions_as_empty_messages(engine, nothing) -> None:
    a, b = df.FlowData(), df.FlowData()
    graph = df.FlowGraph(list(node(Nulls, 2, 2)(a, b)))
    assert graph.feed_data(nothing, df.FlowInfo(flow_flags=df.FlowFlag.DATA_FLOW_FLAG_EOS), partial_inputs=True) == 0
    [seen], info, code = graph.fetch_data(timeout=5000)  # the second output is null and left out
    assert (code, info.flow_flags, seen.numpy().tolist()) == (0, EOS, [[1, EOS], [1, EOS]])
    assert graph.feed_data({a: [1], b: [1]}) == 0
    assert graph.fetch_data(timeout=5000)[0][0].numpy().tolist() == [[0, 0], [0, 0]]


def test_none_stays_none(engine) -> None:
    @df.pyflow
    def kinds(a, b):
        return f"{type(a).__name__} {type(b).__name__}"

    a, b = df.FlowData(), df.FlowData()
    passed = df.pyflow(user.same).fnode()(a)
    graph = df.FlowGraph([df.pyflow(user.same).fnode()(passed), kinds.fnode()(a, b)])
    for left, right in ((None, 1), (None, None), (df.Tensor([1]), None)):
        assert graph.feed({a: left, b: right}) == 0
        [back], code = graph.fetch([0], 5000)
        assert code == 0 and (back is None) == (left is None)
        assert graph.fetch([1], 5000) == ([f"{type(left).__name__} {type(right).__name__}"], 0)


def test_registered_classes_travel_their_own_way_and_others_are_pickled(engine) -> None:
    df.msg_type_register.register(2700, user.Point, user.point_bytes, user.point_of)
    try:
        data = df.FlowData()

        @df.pyflow
        def seen(point):
            return point.way, point

        graph = df.FlowGraph([seen.fnode()(data), df.pyflow(user.same).fnode()(data)])
        assert graph.feed({data: user.Point(5)}) == 0
        [(way, _), point], code = graph.fetch(timeout=5000)
        assert (code, way, type(point), point.x, point.way) == (0, "registered", user.Point, 5, "registered")
        assert graph.feed({data: user.Child(6)}) == 0  # exact classes only: this one is pickled
        [(way, _), child], code = graph.fetch(timeout=5000)
        assert (code, way, type(child), child.x, child.way) == (0, "made", user.Child, 6, "made")
        with pytest.raises(TypeError):
            graph.feed({data: threading.Lock()})
        assert graph.fetch(timeout=0) == ([], EMPTY)
    finally:
        _unregister(2700)


def _unregister(number: int) -> None:
    """There is no public way, and other tests use the same register."""
    register = df.msg_type_register
    for table in vars(register).values():
        if isinstance(table, dict):
            for key in [key for key, row in table.items() if number in (key, row)]:
                del table[key]
    assert not register.registered(number)


def test_a_failed_message_gives_its_code_and_the_next_one_passes(engine) -> None:
    data, graph = relay()
    assert graph.feed_data({data: [-1]}) == 0 and graph.fetch(timeout=5000) == ([], 145000)
    assert graph.feed_data({data: [-1]}, df.FlowInfo(start_time=3)) == 0
    tensors, info, code = graph.fetch_data(timeout=5000)
    assert (tensors, info.start_time, info.transaction_id, code) == ([], 3, 2, 9900007)
    assert graph.feed_data({data: [1]}) == 0 and user.value(graph.fetch_data(timeout=5000)) == [1]


def test_failure_passes_plain_functions(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(user.same).fnode()(node(user.Relay, 1, 1)(data))])
    for number in (-1, 4):
        assert graph.feed_data({data: [number]}) == 0
    assert graph.fetch_data(timeout=5000)[2] == 9900007
    assert user.value(graph.fetch_data(timeout=5000)) == [4]


class Raw:
    """Bytes of an own type, or of none."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        kind = int(input_flow_msgs[0].get_tensor().numpy()[0])
        raw = run_context.alloc_raw_data_msg(5)
        raw.get_raw_data()[:] = b"hello"
        if kind:
            raw.set_msg_type(kind)
        return run_context.set_output(0, raw)


def test_messages_of_raw_bytes_reach_plain_functions_as_bytes(engine) -> None:
    @df.pyflow
    def read(data):
        return bytes(data)

    data = df.FlowData()
    raw = node(Raw, 1, 1)(data)
    graph = df.FlowGraph([raw, read.fnode()(raw)])
    for kind in (0, 3000):
        assert graph.feed_data({data: [kind]}) == 0
        assert graph.fetch([0], 5000) == ([], 145000)
        assert graph.fetch([1], 5000) == ([b"hello"], 0)
