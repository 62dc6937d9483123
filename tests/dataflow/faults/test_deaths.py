"""Whatever a node does to itself, the application gets a code in time, and nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dataflow as df
from tests.dataflow.engine_support import Line, embedded, gone
from tests.waiting import eventually, process_state

QUEUE_EMPTY, FAILED, FUNC_FAILED = 207013, 0xFFFFFFFF, 564000


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    with embedded():
        yield


@df.pyflow
def same(value):
    return value


@df.pyflow
def troubled(order):
    """Does what it is told."""
    if not isinstance(order, str):
        return order
    if order == "raise":
        raise ValueError("as told")
    if order == "exit":
        os._exit(3)
    if order == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if order == "sleep":
        time.sleep(1000)
    if order == "at once too much":
        return bytearray(1 << 50)
    if order == "more and more":
        kept = []
        while True:
            kept.append(np.ones(4 << 20, np.uint8))
    return order


@df.pyflow(num_returns=2)
def two(order):
    return {"list": [1, 2], "three": (1, 2, 3), "one": 1}.get(order, (1, 2))


class Chain(Line):
    """before → a node that gets orders → after."""

    def __init__(self, **options: str) -> None:
        if options:
            df.finalize()
            names = {f"softnpu.flow.{key}": value for key, value in options.items()}
            df.init({"softnpu.flow.engine": "embedded", **names})
        self.data = df.FlowData()
        self.graph = df.FlowGraph([same.fnode()(troubled.fnode()(same.fnode()(self.data)))])


def alive(pid: int) -> bool:
    return not gone(pid)


@pytest.mark.parametrize("order", ["raise", "at once too much"])
def test_a_call_that_fails_fails_its_transaction_only(order: str) -> None:
    chain = Chain()
    chain.feed(1, order, 2)
    assert chain.fetch() == 1
    pids = chain.pids()
    assert chain.fetch() == 145000  # fetch() folds every failure of a message into this code
    assert chain.fetch() == 2
    assert chain.pids() == pids


def test_fetch_data_gives_the_code_of_the_failure() -> None:
    data = df.FlowData()
    graph = df.FlowGraph([troubled.fnode()(data)])
    assert graph.feed({data: "raise"}) == 0
    values, info, code = graph.fetch_data(timeout=10_000)
    assert (values, code, info.transaction_id) == ([], FUNC_FAILED, 1)


@pytest.mark.parametrize("order", ["exit", "crash"])
def test_a_process_that_dies_is_started_again(order: str) -> None:
    chain = Chain()
    chain.feed(0)
    assert chain.fetch() == 0
    before = chain.pids()
    chain.feed(1, 2, order, 3, 4)
    assert [chain.fetch() for _ in range(5)] == [1, 2, 145000, 3, 4]
    after = chain.pids()
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] != before[1]
    assert not alive(before[1])


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_kill_9_of_any_worker_loses_nothing_that_waits(victim: int) -> None:
    chain = Chain()
    chain.feed(-1)
    assert chain.fetch() == -1
    pid = chain.pids()[victim]
    chain.feed(*range(60))
    os.kill(pid, signal.SIGKILL)
    chain.feed(*range(60, 120))
    got = [chain.fetch() for _ in range(120)]
    lost = [index for index, value in enumerate(got) if value == 145000]
    assert len(lost) <= 1  # the transaction that was being worked on
    assert [value for value in got if value != 145000] == [value for value in range(120) if value not in lost]
    assert chain.fetch(timeout=50) == QUEUE_EMPTY  # and nothing twice


def test_large_payloads_survive_a_death() -> None:
    chain = Chain()
    frames = [np.full(300_000, index, np.uint8) for index in range(40)]
    chain.feed(frames[0])
    chain.fetch()
    pid = chain.pids()[1]
    chain.feed(*frames)
    os.kill(pid, signal.SIGKILL)
    got = [chain.fetch() for _ in frames]
    good = [(index, value) for index, value in enumerate(got) if not isinstance(value, int)]
    assert len(good) >= len(frames) - 1
    assert all((value == index).all() and len(value) == 300_000 for index, value in good)


def test_kill_9_of_all_workers_at_once() -> None:
    chain = Chain()
    chain.feed(0)
    assert chain.fetch() == 0
    pids = chain.pids()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not set(pids) & set(chain.pids()) and all(map(alive, chain.pids())), 10)
    chain.feed(1)
    assert chain.fetch() in (1, 145000)
    chain.feed(2)
    assert chain.fetch() == 2


def test_a_node_that_dies_all_the_time_ends_the_graph(capfd: pytest.CaptureFixture[str]) -> None:
    chain = Chain(restarts="2")
    chain.feed("exit", "exit", "exit", 1)
    began = time.monotonic()
    codes = [chain.fetch() for _ in range(4)]
    assert time.monotonic() - began < 20
    assert codes[:2] == [145000, 145000]
    assert codes[3] == FAILED
    assert chain.graph.feed({chain.data: 1}) == FAILED
    assert "troubled" in capfd.readouterr().out


class Unwilling:
    def __init__(self):
        raise ValueError("not today")

    @df.method()
    def go(self, value):
        return value


def test_a_constructor_that_raises_is_reported_once(capfd: pytest.CaptureFixture[str]) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(Unwilling).fnode().go(data)])
    with pytest.raises(df.DfException) as caught:
        graph.feed({data: 1})
    written = capfd.readouterr()
    everything = str(caught.value) + written.out + written.err
    assert everything.count("ValueError: not today") == everything.count("Traceback") == 1


def test_with_on_death_end_the_first_death_ends_the_graph() -> None:
    chain = Chain(on_death="end")
    chain.feed("exit")
    began = time.monotonic()
    assert chain.fetch() == FAILED
    assert time.monotonic() - began < 10
    pids = chain.pids()
    df.finalize()
    assert eventually(lambda: not any(map(alive, pids)), 10)


def test_a_function_that_never_returns_times_out_and_can_be_ended() -> None:
    chain = Chain()
    chain.feed(0)
    assert chain.fetch() == 0
    chain.feed("sleep")
    began = time.monotonic()
    assert chain.fetch(timeout=300) == QUEUE_EMPTY
    assert 0.29 < time.monotonic() - began < 10
    pids = chain.pids()
    began = time.monotonic()
    df.finalize()
    assert time.monotonic() - began < 10  # the function sleeps for 1000
    assert eventually(lambda: not any(map(alive, pids)), 10)


def test_memory_that_grows_ends_in_a_failed_call() -> None:
    chain = Chain(memory="300M")
    chain.feed("more and more", 1)
    assert chain.fetch() == 145000
    assert chain.fetch() == 1


@pytest.mark.parametrize("order", ["list", "three", "one"])
def test_a_wrong_number_of_results_fails_its_transaction_only(order: str) -> None:
    data = df.FlowData()
    first, second = two.fnode()(data)
    graph = df.FlowGraph([first, second])
    assert graph.feed({data: order}) == 0
    assert graph.fetch(timeout=5000) == ([], 145000)
    assert graph.feed({data: "right"}) == 0
    assert graph.fetch(timeout=5000) == ([1, 2], 0)


def test_strict_stops_the_node_as_the_real_engine_does() -> None:
    chain = Chain(strict="1")
    chain.feed(1)
    assert chain.fetch() == 1
    chain.feed("raise", 2)
    assert chain.fetch(timeout=300) == QUEUE_EMPTY


def test_a_dead_zygote_is_replaced_when_it_is_needed() -> None:
    from softnpu.flow.engines.embedded.zygote import zygote

    chain = Chain()
    chain.feed(0)
    assert chain.fetch() == 0
    first = zygote().process
    first.kill()
    first.wait()
    chain.feed(1, "exit", 2)
    assert [chain.fetch() for _ in range(3)] == [1, 145000, 2]
    assert zygote().process.pid != first.pid


PROGRAM = """
import os, sys, time
import dataflow as df

@df.pyflow
def same(value):
    if value == "sleep":
        time.sleep(1000)
    return value

df.init({"softnpu.flow.engine": "embedded"})
data = df.FlowData()
graph = df.FlowGraph([same.fnode()(same.fnode()(data))])
graph.feed({data: bytes(100_000)})
graph.fetch()
print(*(row["pid"] for row in graph._session.statistics()), flush=True)
graph.feed({data: "sleep"})
"""


def run_program(tmp_path: Path, rest: str) -> tuple[subprocess.Popen[str], list[int]]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + textwrap.dedent(rest))
    program = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout is not None
    return program, [int(pid) for pid in program.stdout.readline().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_when_the_application_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    program, pids = run_program(tmp_path, "graph.fetch()")
    assert pids and all(map(alive, pids))
    program.send_signal(number)
    program.communicate(timeout=60)
    assert eventually(lambda: not any(map(alive, pids)), 10)


def test_ctrl_c_ends_the_fetch_and_the_program(tmp_path: Path) -> None:
    program, pids = run_program(tmp_path, "graph.fetch()")
    assert eventually(lambda: process_state(program.pid) == "S")  # nothing else tells from outside that a fetch waits
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert eventually(lambda: not any(map(alive, pids)), 10)


def test_a_program_that_just_ends_leaves_no_worker(tmp_path: Path) -> None:
    program, pids = run_program(tmp_path, "")
    _, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    assert eventually(lambda: not any(map(alive, pids)), 10)


def test_a_fork_of_the_application_ends_without_ending_the_workers() -> None:
    chain = Chain()
    chain.feed(0)
    assert chain.fetch() == 0
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            df.finalize()
        os._exit(0)
    os.waitpid(child, 0)
    chain.feed(1)
    assert chain.fetch() == 1


def test_nothing_in_dev_shm_and_no_descriptor_left() -> None:
    folder = Path("/dev/shm")
    before = set(folder.iterdir()) if folder.is_dir() else set()
    count = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        chain = Chain(restarts="3")
        chain.feed(np.zeros(1_000_000), "exit")
        chain.fetch(), chain.fetch()
        assert not folder.is_dir() or set(folder.iterdir()) <= before
        df.finalize()
    assert len(os.listdir("/proc/self/fd")) <= count + 2  # the zygote's socket


def test_feeding_after_the_end_is_an_error() -> None:
    chain = Chain()
    chain.feed(0)
    assert chain.fetch() == 0
    df.finalize()
    with pytest.raises(df.DfException) as caught:
        chain.graph.feed({chain.data: 1})
    assert caught.value.error_code == 145001


@df.pyflow
def slow_sum(batch):
    time.sleep(0.01)
    return int(batch.numpy().sum())


def batched(depth: int) -> tuple[df.FlowData, df.FlowGraph]:
    """Sums of two, behind a queue of a given depth."""
    data = df.FlowData()
    node = slow_sum.fnode()
    node.map_input(0, node.point, 0, [df.CountBatch(2)])
    node.set_attr("_flow_attr_depth", depth)
    return data, df.FlowGraph([node(data)])


def test_batches_survive_a_death() -> None:
    data, graph = batched(128)
    for value in range(60):
        assert graph.feed_data({data: np.array([value])}) == 0
    pid = graph._session.statistics()[0]["pid"]
    got = [graph.fetch(timeout=10_000) for _ in range(5)]
    os.kill(pid, signal.SIGKILL)
    got += [graph.fetch(timeout=10_000) for _ in range(25)]
    wanted = [([4 * index + 1], 0) for index in range(30)]
    wrong = [index for index in range(30) if got[index] != wanted[index]]
    assert len(wrong) <= 1 and all(got[index] == ([], 145000) for index in wrong)
    assert graph.fetch(timeout=50) == ([], QUEUE_EMPTY)


def test_batches_do_not_make_the_queue_longer() -> None:
    data, graph = batched(4)
    fed = 0
    while graph.feed_data({data: np.array([fed])}, timeout=0) == 0:
        fed += 1
        assert fed < 40
    assert fed >= 4
    while graph.fetch(timeout=300)[1] == 0:  # and it goes on when there is room
        pass
    assert graph.feed_data({data: np.array([1])}, timeout=10_000) == 0
