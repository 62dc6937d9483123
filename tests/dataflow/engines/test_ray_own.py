"""A Ray that the engine starts by itself, where there was none before."""

from __future__ import annotations

import threading

import pytest

import dataflow as df
from tests.dataflow.engine_support import children, gone
from tests.waiting import eventually

pytest.importorskip("ray")


@pytest.mark.slow
def test_ray_outlives_the_thread_that_started_it() -> None:
    """Ray's own processes end with the thread that started them."""
    df.finalize()
    before = children()
    df.init({"softnpu.flow.engine": "ray"})
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(lambda value: value + 1).fnode()(data)])
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(graph.feed({data: 1})))
    thread.start()
    thread.join()
    assert codes == [0] and graph.fetch(timeout=60_000) == ([2], 0)
    processes = children() - before
    assert processes and not eventually(lambda: any(map(gone, processes)), seconds=2)
    assert graph.feed({data: 2}) == 0 and graph.fetch(timeout=60_000) == ([3], 0)
    df.finalize()
