"""Random graphs, random queue depths, random order of feeding and fetching, several threads: the numbers are those of a
plain computation, in order, and nothing stands still."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dataflow as df

LIMIT = 8_000  # milliseconds: whoever waits so long waits for ever


@df.pyflow
def plus_one(value):
    return value + 1


@df.pyflow
def sum_of_two(left, right):
    return left * 3 + right


@df.pyflow(num_returns=2)
def fork(value):
    return value * 2, -value


class Graph:
    """A random graph and the same as plain functions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.inputs = [df.FlowData() for _ in range(self.random.randint(1, 2))]
        edges: list[tuple[Any, Callable[[list[Any]], Any]]] = [
            (data, lambda values, index=index: values[index]) for index, data in enumerate(self.inputs)
        ]
        unused = set(range(len(edges)))
        for _ in range(self.random.randint(1, 6)):
            self._grow(edges, unused)
        while any(index < len(self.inputs) for index in unused):  # every input of the graph has to be used
            self._grow(edges, unused, first=min(unused))
        outputs = sorted(unused | set(self.random.sample(range(len(self.inputs), len(edges)), 1)))
        self.functions = [edges[index][1] for index in outputs]
        self.graph = df.FlowGraph([edges[index][0] for index in outputs])

    def _grow(self, edges: list[Any], unused: set[int], first: int | None = None) -> None:
        kind = self.random.choice([plus_one, sum_of_two, fork])
        node = kind.fnode()
        node.set_attr("_flow_attr_depth", self.random.choice([2, 3, 8, 128]))
        picked = [self.random.randrange(len(edges)) for _ in range(2 if kind is sum_of_two else 1)]
        if first is not None:
            picked[0] = first
        unused.difference_update(picked)
        output = node(*(edges[index][0] for index in picked))
        sources = [edges[index][1] for index in picked]
        if kind is plus_one:
            edges.append((output, lambda values, a=sources[0]: a(values) + 1))
        elif kind is sum_of_two:
            edges.append((output, lambda values, a=sources[0], b=sources[1]: a(values) * 3 + b(values)))
        else:
            edges.append((output[0], lambda values, a=sources[0]: a(values) * 2))
            edges.append((output[1], lambda values, a=sources[0]: -a(values)))
        unused.update(range(len(edges) - (2 if kind is fork else 1), len(edges)))

    def feed(self, values: list[Any], timeout: int = LIMIT) -> int:
        return self.graph.feed(dict(zip(self.inputs, values, strict=True)), timeout=timeout)


def same(left: Any, right: Any) -> bool:
    return bool(np.array_equal(left, right))


@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph_gives_what_plain_python_gives(engine: str, seed: int) -> None:
    drawn = Graph(seed)
    large = seed % 4 == 3
    rounds = 60 if large else 150
    fed: list[list[Any]] = []
    got: list[list[Any]] = [[] for _ in drawn.functions]
    while any(len(each) < rounds for each in got):
        if len(fed) < rounds and drawn.random.random() < 0.6:
            values = [drawn.random.randint(0, 99) for _ in drawn.inputs]
            if large:
                values = [np.full(3000, value) for value in values]
            if drawn.feed(values, timeout=0) == 0:
                fed.append(values)
                continue
        behind = [index for index, each in enumerate(got) if len(each) < len(fed)]
        if behind:
            least = min(len(got[index]) for index in behind)  # results that nobody fetches would hold the others up
            index = drawn.random.choice([index for index in behind if len(got[index]) == least])
            values, code = drawn.graph.fetch([index], timeout=LIMIT)
            assert code == 0
            got[index].append(values[0])
    for index, function in enumerate(drawn.functions):
        assert all(same(value, function(values)) for value, values in zip(got[index], fed, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_thread_for_each_output_and_one_that_feeds(engine: str, seed: int) -> None:
    drawn = Graph(100 + seed)
    rounds = 400
    fed = [[drawn.random.randint(0, 99) for _ in drawn.inputs] for _ in range(rounds)]
    assert drawn.feed(fed[0]) == 0
    got: list[list[Any]] = [[] for _ in drawn.functions]
    codes: list[int] = []

    def fetch(index: int) -> None:
        while len(got[index]) < rounds:
            values, code = drawn.graph.fetch([index], timeout=LIMIT)
            if code:
                codes.append(code)
                return
            got[index].append(values[0])

    threads = [threading.Thread(target=fetch, args=(index,)) for index in range(len(got))]
    for thread in threads:
        thread.start()
    codes.extend(filter(None, (drawn.feed(values) for values in fed[1:])))
    for thread in threads:
        thread.join()
    assert codes == []
    for index, function in enumerate(drawn.functions):
        assert got[index] == [function(values) for values in fed]


def test_several_threads_feed_and_several_fetch(engine: str) -> None:
    data = df.FlowData()
    left, right = fork.fnode()(data)
    graph = df.FlowGraph([left, right])
    assert graph.feed({data: 0}) == 0
    assert graph.fetch(timeout=LIMIT) == ([0, 0], 0)
    count = 600
    got: dict[int, list[int]] = {0: [], 1: []}
    codes: list[int] = []

    def feed(first: int) -> None:
        codes.extend(filter(None, (graph.feed({data: first + index}, timeout=LIMIT) for index in range(count))))

    def fetch(index: int) -> None:
        for _ in range(3 * count):
            values, code = graph.fetch([index], timeout=LIMIT)
            if code:
                codes.append(code)
                return
            got[index].append(values[0])

    threads = [threading.Thread(target=feed, args=(1000 * number,)) for number in (1, 2, 3)]
    threads += [threading.Thread(target=fetch, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == []
    assert [value // 2 for value in got[0]] == [-value for value in got[1]]
    assert sorted(-value for value in got[1]) == sorted(
        1000 * number + index for number in (1, 2, 3) for index in range(count)
    )
