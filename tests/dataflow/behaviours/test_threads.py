"""Several threads and several graphs, on every engine."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dataflow as df
from tests.dataflow.behaviours import support as user
from tests.dataflow.behaviours.support import FAILED


def pair():
    inputs = df.FlowData(), df.FlowData()
    return (*inputs, df.FlowGraph([df.pyflow(user.add).fnode()(*inputs)]))


@pytest.mark.on_ray
def test_feeding_and_fetching_from_several_threads(engine) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(user.same).fnode()(data)])
    threads, each = 4, 50
    graph.feed({data: -1})
    assert graph.fetch() == ([-1], 0)

    def feed(first: int) -> list[int]:
        return [graph.feed({data: first + number}, timeout=20000) for number in range(each)]

    def fetch() -> list[int]:
        answers = [graph.fetch(timeout=20000) for _ in range(each)]
        assert all(code == 0 for _, code in answers)
        return [number for [number], _ in answers]

    with ThreadPoolExecutor(2 * threads) as pool:
        fetched = [pool.submit(fetch) for _ in range(threads)]
        fed = [pool.submit(feed, 1000 * number) for number in range(threads)]
        assert all(code == 0 for done in fed for code in done.result(30))
        results = [done.result(30) for done in fetched]
    wanted = sorted(1000 * number + item for number in range(threads) for item in range(each))
    assert sorted(number for values in results for number in values) == wanted
    for values in results:  # what one thread fed stays in order for whoever fetches it
        for number in range(threads):
            mine = [value for value in values if value // 1000 == number]
            assert mine == sorted(mine)


def test_threads_fetch_different_outputs(engine) -> None:
    a, b = df.FlowData(), df.FlowData()
    graph = df.FlowGraph([df.pyflow(user.same).fnode()(each) for each in (a, b)])
    assert graph.feed({a: 0, b: 0}) == 0 and graph.fetch() == ([0, 0], 0)
    with ThreadPoolExecutor(2) as pool:
        late = pool.submit(graph.fetch, [0], 20000)
        soon = pool.submit(graph.fetch, [1], 20000)
        assert graph.feed({b: 1}, partial_inputs=True) == 0 and soon.result(5) == ([1], 0)
        assert not late.done()
        assert graph.feed({a: 2}, partial_inputs=True) == 0 and late.result(5) == ([2], 0)


def test_finalize_frees_a_blocked_fetch(engine) -> None:
    a, _, graph = pair()
    assert graph.feed({a: 1}, partial_inputs=True) == 0
    inside = threading.Event()

    def fetch() -> tuple[list[object], int]:
        inside.set()
        return graph.fetch()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetch)
        inside.wait()
        time.sleep(0.05)  # into the call: nothing tells from outside when a fetch begins to wait
        df.finalize()
        assert waiting.result(5) == ([], FAILED)


def test_two_graphs_at_once(engine) -> None:
    a, b, first = pair()
    second = df.FlowGraph([df.pyflow(user.same).fnode()(a)])  # the input is shared, the queues are not
    for number in range(10):
        assert first.feed({a: number, b: 1}) == 0 and second.feed({a: 10 * number}) == 0
    assert [second.fetch(timeout=5000) for _ in range(10)] == [([10 * number], 0) for number in range(10)]
    assert [first.fetch(timeout=5000) for _ in range(10)] == [([number + 1], 0) for number in range(10)]


def test_from_one_graph_into_another(engine) -> None:
    """Memory of one engine fed to the next: it stays valid after the first has ended."""
    a = df.FlowData()
    first, second = (df.FlowGraph([df.pyflow(user.same).fnode()(a)]) for _ in range(2))
    big = np.arange(300_000, dtype=np.int32)
    assert first.feed({a: df.Tensor(big)}) == 0
    [tensor], code = first.fetch(timeout=5000)
    first.close()
    assert code == 0 and second.feed({a: tensor}) == 0
    [again], code = second.fetch(timeout=5000)
    df.finalize()
    assert code == 0 and np.array_equal(again.numpy(), big) and np.array_equal(tensor.numpy(), big)


def test_a_graph_can_be_built_again_after_finalize(engine) -> None:
    for _ in range(3):
        a, b, graph = pair()
        assert (a.name, graph.nodes[0].name) == ("FlowData", "add_fnode")
        assert graph.feed({a: 1, b: 2}) == 0 and graph.fetch(timeout=5000) == ([3], 0)
        df.finalize()
        with pytest.raises(df.DfException) as error:
            graph.feed({a: 1, b: 2})
        assert error.value.error_code == 145001
        df.init({"softnpu.flow.engine": engine})


def test_a_graph_built_in_another_thread_runs_in_this_one(engine) -> None:
    def work() -> tuple[list[object], int]:
        a, b, graph = pair()
        assert graph.feed({a: "x", b: "y"}) == 0
        return graph.fetch(timeout=5000)

    with ThreadPoolExecutor(3) as pool:
        assert [done.result(10) for done in [pool.submit(work) for _ in range(3)]] == [(["xy"], 0)] * 3
