"""The engine ray: what is its own. The behaviours that all engines share run on it in `behaviours/`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dataflow as df
from softnpu.flow.engines.ray import cluster, records
from softnpu.flow.engines.ray.link import Incoming, Outgoing
from softnpu.flow.message import EOS, Message, Payload
from softnpu.flow.plan import BodySpec, Function, Node, Plan
from softnpu.flow.transport.layout import Channel
from tests.dataflow.engine_support import Line, gone
from tests.waiting import eventually

ray = pytest.importorskip("ray")

EMPTY, FAILED, FUNC_FAILED = 207013, 0xFFFFFFFF, 564000


@pytest.fixture(scope="module", autouse=True)
def one_ray() -> Iterator[None]:
    """Started once: sessions use the Ray that they find and leave it as it is."""
    df.finalize()
    ray.init(address="local", include_dashboard=False, num_cpus=2, object_store_memory=256 << 20, logging_level="ERROR")
    yield
    df.finalize()
    ray.shutdown()


@pytest.fixture(autouse=True)
def program() -> Iterator[None]:
    begin()
    yield
    df.finalize()


def begin(**options: str) -> None:
    df.finalize()
    df.init({"softnpu.flow.engine": "ray", **{f"softnpu.flow.{key}": value for key, value in options.items()}})


@df.pyflow
def same(value):
    return value


@df.pyflow
def troubled(order):
    if isinstance(order, str) and order == "exit":
        os._exit(3)
    if isinstance(order, str) and order == "raise":
        raise ValueError("as told")
    if isinstance(order, str) and order == "sleep":
        time.sleep(1000)
    return order


@df.pyflow
def writeable(value):
    frame = value if isinstance(value, np.ndarray) else value.numpy()
    return bool(frame.flags.writeable), int(frame.sum()), os.getpid()


class Chain(Line):
    """before → a node that gets orders → after."""

    patience = 20_000

    def __init__(self, depth: int = 128) -> None:
        self.data = df.FlowData()
        middle = troubled.fnode()
        middle.set_attr("_flow_attr_depth", depth)
        self.graph = df.FlowGraph([same.fnode()(middle(same.fnode()(self.data)))])


def alive(pid: int) -> bool:
    return not gone(pid)


# ---- running ---------------------------------------------------------------------------------------------------------


def test_each_node_is_an_actor_and_all_are_gone_at_the_end() -> None:
    chain = Chain()
    chain.feed(*range(50))
    assert [chain.fetch() for _ in range(50)] == list(range(50))
    pids = chain.pids()
    assert len(set(pids)) == 3 and os.getpid() not in pids
    df.finalize()
    assert eventually(lambda: not any(map(alive, pids)), 10)
    assert ray.is_initialized()


def test_statistics_come_from_the_actors() -> None:
    chain = Chain()
    chain.feed(1, "raise", 2)
    assert [chain.fetch() for _ in range(3)] == [1, 145000, 2]
    session = chain.graph._session
    # a call is counted when it is over, and its result may come before that; a failure passes the last without a call
    assert eventually(lambda: sorted(row["calls"] for row in session.statistics()) == [2, 3, 3])
    [middle] = [row for row in session.statistics() if row["node"].startswith("troubled")]
    assert (middle["calls"], middle["failures"], middle["received"]) == (3, 1, 3)
    assert sorted(row.read()["calls"] for row in session.supervisor.rows) == [2, 3, 3]


def test_large_payloads_go_through_the_store_and_are_safe_to_change() -> None:
    first, second = writeable.fnode(), writeable.fnode()
    data = df.FlowData()
    graph = df.FlowGraph([first(data), second(data), same.fnode()(data)])
    frame = np.arange(2_000_000, dtype=np.uint8).reshape(1000, 2000)
    total = int(frame.sum())
    assert graph.feed({data: frame}) == 0
    one_reader, other_reader, back = graph.fetch(timeout=20_000)[0]
    assert (
        one_reader[:2] == other_reader[:2] == (True, total) and one_reader[2] != other_reader[2]
    )  # an ndarray is each reader's own
    assert back.flags.writeable and (back == frame).all()
    assert graph.feed({data: df.Tensor(frame)}) == 0
    (one_reader, _, tensor), code = graph.fetch(timeout=20_000)
    assert code == 0 and one_reader[:2] == (False, total)  # a tensor is looked at where it lies
    assert (tensor.numpy() == frame).all()


@pytest.mark.slow
def test_bounded_queues_hold_the_feeder_up_and_lose_nothing() -> None:
    chain = Chain(depth=4)
    chain.feed(0)
    assert chain.fetch() == 0
    chain.feed("sleep")
    accepted = 0
    while chain.graph.feed({chain.data: accepted}, timeout=700) == 0:
        accepted += 1
    assert 4 <= accepted < 400  # the first node's own queue of 128 and what waits in the nodes between


def test_user_exception_reaches_everybody_once() -> None:
    from tests.dataflow.behaviours import support as user

    class Raiser:
        @user.ff.proc_wrapper("i0,o0")
        def go(self, run_context, input_flow_msgs):
            if input_flow_msgs and input_flow_msgs[0].get_tensor().numpy()[0] == 7:
                run_context.raise_exception(-101, 5)
                return 0
            return run_context.set_output(0, input_flow_msgs[0])

    data = df.FlowData()
    graph = df.FlowGraph([user.node(Raiser, 1, 1)(data), user.node(user.Relay, 1, 1)(data)])
    graph.set_inputs_align_attrs(16, -1)
    graph.set_exception_catch(True)
    for number in (1, 7, 2):
        assert graph.feed_data({data: np.array([number])}) == 0
    codes = sorted(graph.fetch_data(timeout=20_000)[2] for _ in range(3))
    assert codes == [0, 0, 345103]
    assert graph.fetch_data(timeout=100)[2] == EMPTY


@df.pyflow
def devices(_):
    return os.environ.get("ASCEND_RT_VISIBLE_DEVICES")


def test_actors_that_reserve_no_device_see_all() -> None:
    data = df.FlowData()
    graph = df.FlowGraph([devices.fnode()(data)])
    assert graph.feed({data: 0}) == 0
    assert graph.fetch(timeout=20_000) == ([os.environ.get("ASCEND_RT_VISIBLE_DEVICES")], 0)


# ---- deaths ----------------------------------------------------------------------------------------------------------


def test_an_actor_that_dies_is_started_again() -> None:
    chain = Chain()
    chain.feed(0)
    assert chain.fetch() == 0
    before = chain.pids()
    chain.feed(1, 2, "exit", 3, 4)
    assert [chain.fetch() for _ in range(5)] == [1, 2, 145000, 3, 4]
    after = chain.pids()
    assert (after[0], after[2]) == (before[0], before[2]) and after[1] != before[1]


@pytest.mark.slow
def test_several_deaths_one_after_the_other() -> None:
    chain = Chain()
    chain.feed("exit", "exit", 1)
    assert [chain.fetch() for _ in range(3)] == [145000, 145000, 1]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("size", [0, 300_000])
def test_kill_9_loses_nothing_and_repeats_nothing(victim: int, size: int) -> None:
    chain = Chain()
    chain.feed((-1, b""))
    chain.fetch()
    pid = chain.pids()[victim]
    chain.feed(*((number, bytes(size)) for number in range(40)))
    os.kill(pid, signal.SIGKILL)
    chain.feed(*((number, bytes(size)) for number in range(40, 80)))
    got = [chain.fetch() for _ in range(80)]
    lost = [index for index, value in enumerate(got) if value == 145000]
    assert len(lost) <= 1
    assert [value[0] for value in got if isinstance(value, tuple)] == [each for each in range(80) if each not in lost]
    assert all(len(value[1]) == size for value in got if isinstance(value, tuple))
    assert chain.fetch(timeout=50) == EMPTY


@pytest.mark.slow
def test_on_death_end_and_too_many_deaths() -> None:
    for options in ({"on_death": "end"}, {"restarts": "0"}):
        begin(**options)
        chain = Chain()
        chain.feed("exit")
        began = time.monotonic()
        assert chain.fetch() == FAILED and time.monotonic() - began < 10
        assert chain.graph.feed({chain.data: 1}) == FAILED


def test_strict_stops_the_node() -> None:
    begin(strict="1")
    chain = Chain()
    chain.feed(1, "raise", 2)
    assert chain.fetch() == 1
    assert chain.fetch(timeout=300) == EMPTY


@pytest.mark.slow
def test_a_call_that_never_returns_can_be_ended() -> None:
    chain = Chain()
    chain.feed(0, "sleep")
    assert chain.fetch() == 0 and chain.fetch(timeout=200) == EMPTY
    pids = chain.pids()
    began = time.monotonic()
    df.finalize()
    assert time.monotonic() - began < 20
    assert eventually(lambda: not any(map(alive, pids)), 10)


def test_a_node_that_cannot_be_set_up() -> None:
    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no weights")

        @df.method()
        def go(self, value):
            return value

    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(Broken).fnode().go(data)])
    with pytest.raises(df.DfException, match="no weights"):
        graph.feed({data: 1})


# ---- Ray itself ------------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys
import dataflow as df

@df.pyflow
def same(value):
    return value

df.init({"softnpu.flow.engine": "ray"})
data = df.FlowData()
graph = df.FlowGraph([same.fnode()(same.fnode()(data))])
graph.feed({data: bytes(300_000)})
assert graph.fetch()[0] == [bytes(300_000)]
import ray, json
print(json.dumps([row["pid"] for row in graph._session.statistics()]), flush=True)
if sys.argv[1] == "wait":
    graph.fetch()
df.finalize()
print(ray.is_initialized(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["finalize", "SIGKILL"])
def test_a_ray_of_its_own_goes_with_the_program(tmp_path: Path, end: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    arguments = [sys.executable, str(tmp_path / "program.py"), "wait" if end == "SIGKILL" else "end"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=settings, cwd=tmp_path) as run:
        assert run.stdout is not None
        pids = json.loads(run.stdout.readline())
        if end == "SIGKILL":
            run.send_signal(signal.SIGKILL)
        rest, _ = run.communicate(timeout=60)
    assert end == "SIGKILL" or rest.strip().endswith("False")
    assert eventually(lambda: not any(map(alive, pids)), 20)


def _plan(**resources: int) -> Plan:
    node = Node("greedy", 1, 1, (Function("f", (0,), (0,)),), BodySpec(""), resources=resources)
    return Plan("g", ("a",), (node,), {}, ())


def test_resources_in_the_words_of_ray() -> None:
    assert cluster.needs(_plan(num_cpus=2, memory=100, num_npus=1)) == [{"CPU": 2, "memory": 100 << 20, "NPU": 1}]
    from softnpu.flow.transport.layout import arrange

    plan = _plan(num_cpus=1, memory=64, num_npus=1)
    options = cluster.Places(ray, plan, arrange(plan)).options(1)
    npus = ray.cluster_resources().get("NPU", 0)  # Ray asks `acl` for devices, and finds those of the software NPU
    reserved = {"resources": {"NPU": 1}} if npus else {}
    assert options == {"num_cpus": 1, "memory": 64 << 20, "max_restarts": 0, "max_task_retries": 0, **reserved}
    plan = _plan(num_npus=int(npus) + 1)
    assert "resources" not in cluster.Places(ray, plan, arrange(plan)).options(1)
    plan = _plan(num_cpus=1000)
    with pytest.raises(df.DfException, match="1000 CPUs"):
        cluster.Places(ray, plan, arrange(plan))


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data)])
    with pytest.raises(df.DfException, match=r'pip install "softnpu\[ray\]"'):
        graph.feed({data: 1})


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_records_keep_the_whole_message() -> None:
    message = Message(Payload(1, b"meta", [b"small", np.zeros(200_000, np.uint8)]), 1024, 9)
    message.ret_code, message.flags, message.user_data, message.route_label = -5, EOS, b"u" * 64, 3
    stored = []
    body, refs, size = records.pack(message, lambda chunk: stored.append(chunk) or len(stored) - 1)
    assert refs == (0,) and size < 1000
    back = records.unpack(body, list(stored))
    assert back.shared and bytes(back.payload.chunks[0]) == b"small" and back.payload.chunks[1] is stored[0]
    for name in ("msg_type", "trans_id", "ret_code", "flags", "user_data", "route_label"):
        assert getattr(back, name) == getattr(message, name)


class _Line:
    size = 0

    def __init__(self) -> None:
        self.posted: list[tuple[object, ...]] = []

    def post(self, item: tuple[object, ...], refs: tuple[object, ...], size: int) -> None:
        self.posted.append(item)


def test_what_is_not_finished_is_sent_again_under_its_number_and_known_results_are_skipped() -> None:
    channel = Channel(0, 1, 2, 0, 0, 4, False)
    line = _Line()
    out = Outgoing(channel, line)
    for number in range(4):
        assert out.fits()
        out.send(records.Record((), (), 0, (9, 0, number, 1)))
    assert not out.fits()
    out.credited(3, 2)
    assert out.fits()
    line.posted.clear()
    out.again()
    assert [item[2] for item in line.posted] == [2, 3] and out.taken == 2
    incoming = Incoming(channel, None)
    incoming.begin(0, 0)
    assert not incoming.known((9, 0, 2, 1))
    incoming.begin(1, 0)
    assert incoming.known((9, 0, 2, 1)) and not incoming.known((9, 0, 3, 1)) and not incoming.known(None)
    for sequence in (1, 0, 3):
        incoming.finish(sequence)
    assert incoming.floor == 2
