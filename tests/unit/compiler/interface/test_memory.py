"""The memory plan: never less than what lives at one time, and no two living values in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.compiler.interface import memory
from softnpu.graph.ir import Graph, Output, Value

ALIGN = 512


def rounded(value: Value) -> int:
    return -(-value.bytes() // ALIGN) * ALIGN


def random_graph(seed: int) -> Graph:
    """Nodes with up to three inputs of before, one or two outputs of odd sizes, some constants, several outputs."""
    random = np.random.default_rng(seed)
    graph = Graph("g")
    values = [graph.data_node(f"x{i}", 0, (int(random.integers(1, 4000)),)).output for i in range(2)]
    for index in range(int(random.integers(3, 40))):
        if random.random() < 0.15:
            values.append(graph.const(np.zeros(int(random.integers(1, 3000)), np.float32), f"c{index}"))
            continue
        near = values[-8:]
        picked = [near[int(i)] for i in random.integers(0, len(near), int(random.integers(1, 4)))]
        node = graph.op("Op", [*picked, None], f"n{index}", outputs=int(random.integers(1, 3)))
        for value in node.outputs:
            value.dtype, value.shape = int(random.choice([0, 1, 4, 9])), (int(random.integers(0, 5000)),)
        values += node.outputs
    count = int(random.integers(1, 4))
    graph.outputs = [Output(values[-1 - i], f"y{i}") for i in range(min(count, len(values)))]
    graph.verify()
    return graph


def lives(graph: Graph) -> dict[int, tuple[Value, int, int]]:
    """Value → first and last step in which it must have memory, by looking at every use."""
    spans: dict[int, tuple[Value, int, int]] = {}
    for step, node in enumerate(graph.nodes):
        for value in node.outputs:
            if node.type != "Const" and value.bytes():
                uses = [at for at, user in enumerate(graph.nodes) if any(taken is value for taken in user.inputs)]
                end = len(graph.nodes) if any(output.value is value for output in graph.outputs) else max([step, *uses])
                spans[id(value)] = (value, step, end)
    return spans


def largest_live_set(graph: Graph) -> int:
    rows = lives(graph).values()
    return max(
        sum(rounded(value) for value, first, last in rows if first <= step <= last) for step in range(len(graph.nodes))
    )


@pytest.mark.parametrize("seed", range(40))
def test_values_that_live_together_never_overlap(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(seed)
    taken: list[tuple[int, int]] = []
    take = memory._take

    def recording(*args: Any) -> Any:
        answer = take(*args)
        taken.append(answer[:2])
        return answer

    monkeypatch.setattr(memory, "_take", recording)
    total = memory.plan(graph)
    rows = list(lives(graph).values())
    assert len(taken) == len(rows)
    assert largest_live_set(graph) <= total <= sum(rounded(value) for value, _, _ in rows)
    for index, (value, first, last) in enumerate(rows):
        offset, size = taken[index]
        assert size >= value.bytes() and offset % ALIGN == 0 and offset + size <= total
        for other in range(index):
            _, begin, end = rows[other]
            if begin <= last and first <= end:
                start, length = taken[other]
                assert offset + size <= start or start + length <= offset, f"values {other} and {index} overlap"


def test_a_chain_needs_two_places() -> None:
    graph = Graph("g")
    value = graph.data_node("x", 0, (1000,)).output
    for index in range(10):
        value = graph.op("Op", [value], f"n{index}").output
        value.dtype, value.shape = 0, (1000,)
    graph.outputs = [Output(value, "y")]
    assert memory.plan(graph) == 2 * 4096


def test_outputs_stay_until_the_end() -> None:
    graph = Graph("g")
    x = graph.data_node("x", 0, (128,)).output
    values = [graph.op("Op", [x], f"n{index}").output for index in range(5)]
    for value in values:
        value.dtype, value.shape = 0, (128,)
    graph.outputs = [Output(value, value.name) for value in values]
    assert memory.plan(graph) == 6 * 512


def test_a_value_that_nobody_uses() -> None:
    graph = Graph("g")
    x = graph.data_node("x", 0, (128,)).output
    unused = graph.op("Op", [x], "unused").output
    last = graph.op("Op", [x], "last").output
    for value in (unused, last):
        value.dtype, value.shape = 0, (128,)
    graph.outputs = [Output(last, "y")]
    assert memory.plan(graph) == 2 * 512


def test_constants_and_empty_values_need_none() -> None:
    graph = Graph("g")
    graph.const(np.zeros(10000, np.float32))
    empty = graph.data_node("x", 0, (0, 5)).output
    graph.outputs = [Output(empty, "y")]
    assert memory.plan(graph) == 0


def test_shapes_of_a_gear() -> None:
    graph = Graph("g")
    x = graph.data_node("x", 0, (-1, 128)).output
    graph.outputs = [Output(x, "y")]
    assert memory.plan(graph) == 0
    assert memory.plan(graph, {"x": (8, 128)}) == 8 * 512
