"""The embedded engine hangs, loses, doubles and spoils nothing: limits of counters, descriptors, pipes and batches."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from softnpu.flow.message import EOS, SEG, Message
from softnpu.flow.plan import CountRule, TimeRule
from softnpu.flow.running.inputs import Batching
from softnpu.flow.transport.placement import Placed, Placement
from tests.dataflow.engine_support import embedded
from tests.waiting import eventually

EMPTY, FULL, FAILED = 207013, 207014, 0xFFFFFFFF
FRAME = 300_000


@pytest.fixture(autouse=True)
def session(traces: Any) -> Iterator[None]:
    with embedded():
        yield


@df.pyflow
def same(value):
    return value


def deep(node: Any, depth: int) -> Any:
    node.set_attr("_flow_attr", True)
    node.set_attr("_flow_attr_depth", depth)
    return node


def simple() -> tuple[df.FlowData, df.FlowGraph]:
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data)])
    assert graph.feed({data: -1}) == 0
    assert graph.fetch(timeout=10_000) == ([-1], 0)
    return data, graph


def rows(graph: df.FlowGraph) -> list[dict[str, Any]]:
    return graph._session.statistics()


def kill(graph: df.FlowGraph, index: int = 0) -> None:
    """Kill a worker and wait until its next life has loaded its functions."""
    before = rows(graph)[index]["pid"]
    os.kill(before, signal.SIGKILL)
    assert eventually(lambda: rows(graph)[index]["pid"] != before and rows(graph)[index]["state"] == 1, 10)


# ---- after a death -------------------------------------------------------------------------------------------------------


def test_a_worker_may_die_again_although_nobody_waited_in_between() -> None:
    data, graph = simple()
    kill(graph)
    kill(graph)
    assert graph.feed({data: 2}) == 0
    assert graph.fetch(timeout=5000) == ([2], 0)


def test_more_lives_than_a_byte_can_count() -> None:
    data, graph = simple()
    graph._session.supervisor.workers[0].lives = 254
    for value in range(3):
        kill(graph)
        assert graph.feed({data: value}) == 0
        assert graph.fetch(timeout=5000) == ([value], 0)
    assert rows(graph)[0]["life"] == 257


def gated(value, gate):
    return value


def test_a_queue_keeps_its_depth_after_the_death_of_its_reader() -> None:
    """The numbers of the former life must not be taken for room, and who waits must ask the new life."""
    data, gate = df.FlowData(name="data"), df.FlowData(name="gate")
    reader = deep(df.pyflow(gated).fnode(), 4)
    graph = df.FlowGraph([reader(deep(same.fnode(), 4)(data), gate)])
    for value in range(100):
        assert graph.feed({data: value, gate: 0}) == 0
        assert graph.fetch(timeout=5000) == ([value], 0)
    fed = 100

    def fill(wait: int) -> int:
        nonlocal fed
        while graph.feed({data: fed}, wait, partial_inputs=True) == 0:
            fed += 1
        return fed

    assert fill(200) <= 110
    names = [row["node"] for row in rows(graph)]
    kill(graph, next(index for index, name in enumerate(names) if "gated" in name))
    assert fill(300) <= 112
    for value in range(100, fed):
        assert graph.feed({gate: 0}, partial_inputs=True) == 0
        assert graph.fetch(timeout=5000) == ([value], 0)


class DiesAfterSending:
    """Its result is out, then it dies."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        number = int(input_flow_msgs[0].get_tensor().numpy()[0])
        if number == 1:
            time.sleep(0.01)  # results of slow calls go out at once
        run_context.set_output(0, input_flow_msgs[0])
        if number == 1:
            os._exit(1)
        return 0


def test_a_transaction_has_one_answer_even_if_its_process_dies_after_giving_it() -> None:
    data, node = df.FlowData(), df.FlowNode(1, 1)
    node.add_process_point(df.FuncProcessPoint(py_func=DiesAfterSending))
    graph = df.FlowGraph([node(data)])
    for value in range(4):
        assert graph.feed_data({data: np.array([value])}) == 0
    for value in range(4):
        tensors, about, code = graph.fetch_data(timeout=5000)
        assert (code, about.transaction_id, int(tensors[0].numpy()[0])) == (0, value + 1, value)
    assert graph.fetch_data(timeout=100)[2] == EMPTY


def test_memory_that_was_handed_on_twice_is_returned_once(tmp_path: Any) -> None:
    """The first life passed an array on and died before it could say so; the second passes the same memory on."""
    died = str(tmp_path / "died")

    def forward(value):
        if value[0] == 1 and not os.path.exists(died):
            open(died, "w").close()
            from softnpu.flow.transport.inbox import Inbox

            Inbox.finished = lambda *_: os._exit(9)
        return value

    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(forward).fnode()(data)])
    for value in (0, 1):
        assert graph.feed({data: np.full(FRAME, value, np.uint8)}) == 0
        assert graph.fetch(timeout=5000)[0][0][0] == value
        eventually(lambda: False, 0.05)
    assert os.path.exists(died)
    assert eventually(lambda: rows(graph)[0]["life"] == 1 and rows(graph)[0]["calls"] >= 3)
    held = []
    for value in range(2, 12):
        assert graph.feed({data: np.full(FRAME, value, np.uint8)}) == 0
        (array,), code = graph.fetch(timeout=5000)
        assert code == 0
        held.append((value, array))
    assert [value for value, array in held if not (array == value).all()] == []


# ---- many of something ---------------------------------------------------------------------------------------------------


def test_more_readers_than_a_block_has_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    from softnpu.flow.transport import placement as module

    monkeypatch.setattr(module, "TOKENS", 2)
    placed = []
    monkeypatch.setattr(
        Placement, "_reference", lambda self, chunk, payload, parts: placed.append(len(parts)) or Placed([])
    )
    parts = Placement.__new__(Placement).place(module.Payload(3, b"", (np.zeros(FRAME, np.uint8),)), 5).descriptors
    assert (placed, len(parts)) == ([2, 2, 1], 5)


def test_more_descriptors_than_one_message_holds() -> None:
    import socket

    from softnpu.flow.engines.embedded import zygote

    ours, theirs = socket.socketpair()
    source = os.open(os.devnull, os.O_RDONLY)
    got: list[Any] = []
    reader = threading.Thread(target=lambda: got.append(zygote.receive(theirs)))
    reader.start()
    zygote.send(ours, "start", [source] * 601)
    reader.join(5)
    message, descriptors = got[0]
    for each in (source, *descriptors):
        os.close(each)
    ours.close()
    assert (message, len(descriptors), zygote.receive(theirs)) == ("start", 601, None)
    theirs.close()


def test_a_program_with_more_than_1024_descriptors() -> None:
    from softnpu.flow.engines.embedded import zygote

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4000:
        pytest.skip("this user may not open so many")
    df.finalize()
    zygote._close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4000), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        df.init({"softnpu.flow.engine": "embedded"})
        data, graph = simple()
        kill(graph)
        assert graph.feed({data: 1}) == 0
        assert graph.fetch(timeout=5000) == ([1], 0)
        df.finalize()
        zygote._close()
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_few_descriptors_is_an_error_that_leaves_none_behind() -> None:
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data) for _ in range(30)])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 30, hard))
    try:
        with pytest.raises(df.DfException, match="ulimit"):
            graph.feed({data: 1})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before


# ---- stream functions ----------------------------------------------------------------------------------------------------


class Burst:
    @df.method(stream_input="Queue")
    def go(self, numbers):
        for _ in range(numbers.get()):
            yield bytes(3500)


class Late:
    def __init__(self):
        self.late = True

    @df.method()
    def length(self, value):
        if self.late:
            self.late = False
            time.sleep(0.5)
        return len(value)


def test_a_stream_that_fills_a_pipe_goes_on_when_there_is_room() -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(Late).fnode().length(df.pyflow(Burst).fnode().go(data))])
    assert graph.feed({data: 120}) == 0
    for _ in range(120):
        assert graph.fetch(timeout=5000) == ([3500], 0)


def ends_itself(numbers):
    number = numbers.get()
    if number == 1:
        sys.exit(3)
    return number


def test_a_stream_function_may_call_exit() -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(stream_input="Queue")(ends_itself).fnode()(data)])
    for number in range(3):
        assert graph.feed({data: number}) == 0
    assert [graph.fetch(timeout=5000)[1] for _ in range(3)] == [0, 145000, 0]


def first_of(arrays):
    return arrays.get()


def batched_stream(batch: df.CountBatch) -> tuple[df.FlowData, df.FlowGraph]:
    data, node = df.FlowData(), df.pyflow(stream_input="Queue")(first_of).fnode()
    output = node(data)
    node.map_input(0, node.point, 0, [batch])
    return data, df.FlowGraph([output])


def test_a_batch_for_a_stream_function_is_given_when_it_is_due() -> None:
    data, graph = batched_stream(df.CountBatch(batch_size=4, timeout=100))
    for number in range(2):
        assert graph.feed({data: np.array([number])}) == 0
    (value,), code = graph.fetch(timeout=3000)
    assert (code, value.tolist()) == (0, [[0], [1]])


def test_batches_for_a_stream_function_do_not_lock_up() -> None:
    data, graph = batched_stream(df.CountBatch(batch_size=2))
    count = 6000
    assert graph.feed({data: np.array([0])}) == 0

    def feed() -> None:
        for number in range(1, count):
            graph.feed({data: np.array([number])}, timeout=5000)

    feeder = threading.Thread(target=feed)
    feeder.start()
    for number in range(count // 2):
        (value,), code = graph.fetch(timeout=5000)
        assert (code, value.tolist()) == (0, [[2 * number], [2 * number + 1]])
    feeder.join()


# ---- what is kept --------------------------------------------------------------------------------------------------------


class FakeRunner:
    def __init__(self) -> None:
        self.finished: list[int] = []


@pytest.mark.parametrize(
    ("rule", "flags"), [(CountRule(4), EOS), (TimeRule(5), EOS), (TimeRule(1000, drop_remainder=True), SEG)]
)
def test_every_message_that_meets_a_batch_is_finished_some_time(rule: Any, flags: int) -> None:
    """Otherwise its sender would keep it, and all after it, for ever."""
    from softnpu.flow.values import codec

    runner = FakeRunner()
    batching = Batching(rule, runner)  # type: ignore[arg-type]
    tickets: list[int] = []
    for number in range(20):
        message = Message(codec.encode_array(np.zeros(2)) if flags == SEG else codec._NULL)
        message.flags, message.ticket = flags, number
        message.start_time = message.end_time = number
        for batch in batching.push(message, 0.0):
            tickets += batch.ticket or []
    assert sorted(tickets + runner.finished) == list(range(20))


def test_a_reader_that_is_slow_does_not_keep_messages_from_being_finished() -> None:
    data = df.FlowData()
    graph = df.FlowGraph([deep(same.fnode(), 8)(deep(same.fnode(), 8)(data))])
    assert graph.feed({data: 0}) == 0
    feeder = threading.Thread(target=lambda: [graph.feed({data: number}, 5000) for number in range(1, 3000)])
    feeder.start()
    most = 0
    for number in range(3000):
        assert graph.fetch(timeout=5000) == ([number], 0)
        if number % 8 == 0:
            time.sleep(0.0005)
        most = max(most, *(len(each.retained) for each in graph._session._outbox.channels.values()))
    feeder.join()
    assert most < 100


def test_a_fork_does_not_give_back_what_its_parent_reads() -> None:
    data, graph = simple()
    assert graph.feed({data: np.full(FRAME, 7, np.uint8)}) == 0
    (value,), _ = graph.fetch(timeout=5000)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            del value
            room = df.alloc_tensor([FRAME], df.DT_UINT8)
            room.numpy()[:] = 1
            code = 0 if graph.feed({data: 1}) == FAILED and graph.fetch(timeout=0)[1] == FAILED else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for _ in range(20):
        assert graph.feed({data: np.full(FRAME, 9, np.uint8)}) == 0
        assert graph.fetch(timeout=5000)[1] == 0
    assert (value == 7).all()


# ---- values --------------------------------------------------------------------------------------------------------------


class Returns:
    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        return int(input_flow_msgs[0].get_tensor().numpy()[0])


def test_codes_of_functions_may_be_any_number() -> None:
    data, node = df.FlowData(), df.FlowNode(1, 1)
    node.add_process_point(df.FuncProcessPoint(py_func=Returns))
    graph = df.FlowGraph([node(data)])
    for code in (FAILED, -1, 1 << 40):
        assert graph.feed_data({data: np.array([code], np.int64)}) == 0
        assert graph.fetch_data(timeout=5000)[2] == code
    assert rows(graph)[0]["life"] == 0


@pytest.mark.parametrize("count", [3, 3000])
def test_arrays_of_plain_bytes(count: int) -> None:
    data, graph = simple()
    array = np.frombuffer(os.urandom(10 * count), "V10")
    assert graph.feed({data: array}) == 0
    (value,), code = graph.fetch(timeout=5000)
    assert (code, value.dtype, value.tobytes()) == (0, array.dtype, array.tobytes())


def test_a_timeout_of_years() -> None:
    data, graph = simple()
    later = threading.Timer(0.05, lambda: graph.feed({data: 1}))
    later.start()
    assert graph.fetch(timeout=1 << 40) == ([1], 0)
    later.join()
