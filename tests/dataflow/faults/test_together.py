"""Several deaths at once: what was between the dead is delivered or fails, each transaction once, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest

import dataflow as df
from softnpu.flow.running import cells
from tests.dataflow.engine_support import Line, embedded, gone
from tests.waiting import eventually

QUEUE_EMPTY = 207013


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    with embedded(restarts="100"):
        yield


@df.pyflow
def same(value):
    return value


@df.pyflow
def slow(value):
    time.sleep(0.002)
    return value


@df.pyflow
def added(value):
    return df.Tensor(value.numpy() + 0)


class Chain(Line):
    """Three nodes in a row; the last is slow, so that the queues before it fill."""

    def __init__(self, first: object = same, second: object = same) -> None:
        self.data = df.FlowData()
        self.graph = df.FlowGraph([slow.fnode()(second.fnode()(first.fnode()(self.data)))])  # type: ignore[attr-defined]
        self.feed(0)
        assert self.fetch_id()[0] == 1

    def fetch_id(self, timeout: int = 10_000) -> tuple[int, int, object]:
        """Transaction, code and value; the values of this file are tensors."""
        values, info, code = self.graph.fetch_data(timeout=timeout)
        return info.transaction_id, code, values[0].numpy() if values else None

    def feed(self, *values: object) -> None:
        for value in values:
            assert self.graph.feed_data({self.data: np.asarray(value)}, timeout=10_000) == 0

    def check(self, first: int, count: int, size: int) -> int:
        """Every transaction ended once, with its own value or with a code; how many failed."""
        got = [self.fetch_id() for _ in range(count)]
        assert sorted(each[0] for each in got) == list(range(first, first + count))
        assert self.graph.fetch_data(timeout=100)[2] == QUEUE_EMPTY
        for number, code, value in got:
            assert code in (0, 564000)
            assert code or (value.size == size and (value == number % 251).all())  # type: ignore[attr-defined]
        return sum(code != 0 for _, code, _ in got)


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("size", [1, 20_000])
@pytest.mark.parametrize("victims", [(0, 1), (2, 1), (0, 1, 2)])
def test_neighbours_that_die_together(victims: tuple[int, ...], size: int) -> None:
    chain = Chain(added)
    number = 2
    for wait in (0.0, 0.01):
        pids = chain.pids()
        chain.feed(*(np.full(size, each % 251, np.int32) for each in range(number, number + 90)))
        time.sleep(wait)
        kill(*(pids[each] for each in victims))
        chain.feed(*(np.full(size, each % 251, np.int32) for each in range(number + 90, number + 100)))
        chain.check(number, 100, size)
        number += 100


def lives(graph: df.FlowGraph, victim: int, old: int) -> bool:
    """Whether a worker has begun a new life and loaded its function."""
    row = graph._session.statistics()[victim]
    return row["pid"] != old and row["state"] != cells.STARTING


@pytest.mark.parametrize("order", [(0, 1), (1, 2), (1, 1, 0, 0, 1)])
def test_neighbours_that_die_one_after_the_other(order: tuple[int, ...]) -> None:
    """The second one holds what the first life of the other sent, the other has begun a new life."""
    chain = Chain(added)
    chain.feed(*(np.full(10, each, np.int32) for each in range(2, 102)))
    for victim in order:
        pid = chain.pids()[victim]
        kill(pid)
        assert eventually(lambda pid=pid, victim=victim: gone(pid) and lives(chain.graph, victim, pid), 10)
    chain.check(2, 100, 10)


@df.pyflow
def thrice(value):
    for number in range(3):
        yield df.Tensor(value.numpy() * 10 + number)


def test_several_messages_of_one_transaction_all_come_when_their_reader_dies() -> None:
    """They have the same id: what was delivered before the death does not stand for what was not."""
    data = df.FlowData()
    graph = df.FlowGraph([slow.fnode()(same.fnode()(thrice.fnode()(data)))])
    graph.set_contains_n_mapping_node(True)
    for turn in range(8):
        for value in range(20):
            assert graph.feed_data({data: np.array([value])}, timeout=10_000) == 0
        time.sleep(0.004 * turn)
        assert eventually(
            lambda: graph._session.statistics()[1]["state"] != "starting"
        )  # a death at the start ends the graph
        kill(graph._session.statistics()[1]["pid"])
        got = [graph.fetch_data(timeout=10_000) for _ in range(60)]
        wanted = [10 * value + number for value in range(20) for number in range(3)]
        wrong = [
            code for want, (values, _, code) in zip(wanted, got, strict=True) if code or values[0].numpy() != [want]
        ]
        assert wrong in ([], [564000])  # what it was working on
        assert graph.fetch_data(timeout=50)[2] == QUEUE_EMPTY


@df.pyflow
def difference(first, second):
    return df.Tensor(first.numpy() - second.numpy())


@df.pyflow
def both(first, second):
    return df.Tensor(np.stack([first.numpy(), second.numpy()]))


def test_pairs_stay_pairs_when_the_branches_die() -> None:
    """Without alignment the k-th message of an input meets the k-th of the other: none may be missing."""
    data = df.FlowData()
    one, two = added.fnode()(data), same.fnode()(data)
    graph = df.FlowGraph([difference.fnode()(one, two)])
    for value in range(200):
        if value == 100:
            kill(*(row["pid"] for row in graph._session.statistics()))
        assert graph.feed_data({data: np.array([value])}, timeout=10_000) == 0
    got = [graph.fetch_data(timeout=10_000) for _ in range(200)]
    assert [info.transaction_id for _, info, _ in got] == list(range(1, 201))
    assert all(code == 564000 or (code == 0 and values[0].numpy() == 0) for values, _, code in got)
    assert graph.fetch_data(timeout=100)[2] == QUEUE_EMPTY


def test_nodes_of_one_process_lose_nothing_when_it_dies() -> None:
    """What one node has handed to the next without a channel is not finished for whoever sent it."""
    data = df.FlowData()
    first, second = added.fnode(), slow.fnode()
    for node in (first, second):
        node.set_attr("_npu_sched_model", 1)
    graph = df.FlowGraph([second(first(data))])
    number = 1
    for size in (10, 20_000, 10):
        for each in range(number, number + 60):
            assert graph.feed_data({data: np.full(size, each, np.int32)}, timeout=10_000) == 0
        got = [graph.fetch_data(timeout=10_000) for _ in range(10)]
        (pid,) = {row["pid"] for row in graph._session.statistics()}
        kill(pid)
        got += [graph.fetch_data(timeout=10_000) for _ in range(50)]
        assert [info.transaction_id for _, info, _ in got] == list(range(number, number + 60))
        assert sum(code != 0 for _, _, code in got) <= 2  # what its two nodes were working on
        assert all(code or (values[0].numpy() == info.transaction_id).all() for values, info, code in got)
        assert graph.fetch_data(timeout=100)[2] == QUEUE_EMPTY
        number += 60


@pytest.mark.parametrize("waves", [1, 3])
def test_random_deaths_in_a_graph_that_forks_and_joins(waves: int) -> None:
    """Messages that a call took together are finished together, also if the process ends right then. In waves: whoever
    sends something again, that its reader had finished, meets another life of that reader."""
    data = df.FlowData()
    first = added.fnode()(data)
    joined = both.fnode()(same.fnode()(added.fnode()(first)), slow.fnode()(first))
    graph = df.FlowGraph([joined])
    random = np.random.default_rng(2)
    number = 0
    for _ in range(10):
        began = number + 1
        for number in range(began, began + 80):
            assert graph.feed_data({data: np.full(10, number, np.int32)}, timeout=10_000) == 0
        for _ in range(waves):
            rows = graph._session.statistics()
            time.sleep(random.uniform(0, 0.02))
            victims = random.choice(5, random.integers(1, 6), False)
            kill(*(rows[each]["pid"] for each in victims))
            for each in victims:
                assert eventually(lambda each=each, rows=rows: lives(graph, each, rows[each]["pid"]), 10)
        got = [graph.fetch_data(timeout=10_000) for _ in range(80)]
        assert [info.transaction_id for _, info, _ in got] == list(range(began, number + 1))
        assert all(code == 564000 or (values[0].numpy() == info.transaction_id).all() for values, info, code in got)
        assert graph.fetch_data(timeout=30)[2] == QUEUE_EMPTY
