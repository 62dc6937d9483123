"""What the dead leave behind in shared memory is used again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

import dataflow as df
from tests.dataflow.engine_support import embedded


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    with embedded(restarts="200"):
        yield


@df.pyflow
def added(value):
    return value + 1


@pytest.mark.parametrize(
    "victim", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_shared_memory_does_not_grow_with_the_dead(victim: int) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([added.fnode()(added.fnode()(added.fnode()(data)))])
    sizes = []
    for _ in range(50):
        for value in range(10):
            assert graph.feed({data: np.full(50_000, value, np.int32)}) == 0
        os.kill(graph._session.statistics()[victim]["pid"], signal.SIGKILL)
        codes = [graph.fetch(timeout=10_000)[1] for _ in range(10)]
        assert set(codes) <= {0, 145000} and codes.count(145000) <= 1
        segment = graph._session.supervisor._segment
        sizes.append(os.fstat(segment).st_blocks * 512)
    assert max(sizes[25:]) <= 1.5 * max(sizes[:10]), [each >> 20 for each in sizes]
