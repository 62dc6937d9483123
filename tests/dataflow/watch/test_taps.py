"""Taps: what passes an edge can be looked at, before and while the graph runs, and nothing of it stays afterwards."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import dataflow as df
from tests.waiting import eventually


@pytest.fixture
def tappable(engine: str) -> str:
    if engine == "ray":
        pytest.skip("taps are for inline and embedded")
    return engine


@df.pyflow
def grow(x):  # type: ignore[no-untyped-def]
    return x * 2


@df.pyflow
def label(x):  # type: ignore[no-untyped-def]
    return {"value": float(x.sum()), "from": os.getpid()}


def chain() -> tuple[df.FlowGraph, df.FlowData, Any]:
    data = df.FlowData(name="data")
    node = grow.fnode()
    return df.FlowGraph([label.fnode()(node(data))]), data, node


@pytest.mark.parametrize("size", [3, 100_000])
def test_a_tap_keeps_the_last_messages_of_a_node(tappable: str, size: int) -> None:
    graph, data, node = chain()
    tap = graph.tap(node, last=4)
    assert len(tap) == 0
    for value in range(10):
        graph.feed({data: np.full(size, value)})
        assert graph.fetch()[1] == 0
    assert eventually(lambda: len(tap) == 4 and tap.messages()[-1].trans_id == 10)
    assert [each.trans_id for each in tap] == [7, 8, 9, 10]
    for each, value in zip(tap, range(6, 10), strict=True):
        np.testing.assert_array_equal(each.value, np.full(size, value * 2))
    assert tap.seen == 10


def test_a_tap_may_name_an_output_an_input_or_a_node(tappable: str) -> None:
    graph, data, node = chain()
    graph.feed({data: np.arange(3)})  # it runs already
    graph.fetch()
    fed, made, result = graph.tap(data), graph.tap(node._output_anchors[0]), graph.tap("label_fnode")
    array = np.arange(3) + 1
    graph.feed({data: array})
    array += 100  # what was fed is not changed by it
    graph.fetch()
    assert eventually(lambda: len(made) == len(result) == 1)
    np.testing.assert_array_equal(fed.values()[0], [1, 2, 3])
    np.testing.assert_array_equal(made.values()[0], [2, 4, 6])
    assert result.values()[0]["value"] == 12
    assert (result.values()[0]["from"] == os.getpid()) == (tappable == "inline")
    assert [each.place for each in made] == ["grow_fnode"]


def test_a_callback_hears_every_message_until_the_tap_is_closed(tappable: str) -> None:
    graph, data, node = chain()
    heard: list[int] = []

    def hear(each: Any) -> None:
        heard.append(each.trans_id)
        if each.trans_id == 2:
            raise ValueError("a mistake in a callback harms nobody")

    with graph.tap(node, hear) as tap:
        for value in range(3):
            graph.feed({data: np.array([value])})
            assert graph.fetch()[1] == 0
        assert eventually(lambda: len(tap) == 3)
    graph.feed({data: np.array([4])})
    assert graph.fetch()[1] == 0
    assert heard == [1, 2, 3]
    assert tap.seen == len(tap) == 3
    assert not {"feed_many", "fetch", "emit"} & graph._session.__dict__.keys()


def test_a_fast_producer_is_not_slowed_down(tappable: str) -> None:
    """Nothing is fetched meanwhile: the tap may miss messages, but has the newest in the end."""
    graph, data, node = chain()
    tap = graph.tap(node, last=5)
    for value in range(100):
        assert graph.feed({data: np.full(2000, value)}, timeout=5000) == 0
    for _ in range(100):
        assert graph.fetch(timeout=5000)[1] == 0
    assert eventually(lambda: [each.trans_id for each in tap] == [96, 97, 98, 99, 100])
    assert tap.seen <= 100


@df.pyflow
def fragile(x):  # type: ignore[no-untyped-def]
    if x == 13:
        raise ValueError(x)
    return x


def test_a_tap_sees_failures_too(tappable: str) -> None:
    data = df.FlowData()
    node = fragile.fnode()
    graph = df.FlowGraph([node(data)])
    tap = graph.tap(node)
    graph.feed({data: 13})
    assert graph.fetch()[1] == 145000
    assert eventually(lambda: len(tap) == 1)
    assert (tap.messages()[0].ret_code, tap.values()) == (564000, [None])


@df.pyflow
def mortal(x):  # type: ignore[no-untyped-def]
    if x == 13:
        os._exit(3)
    return x


def test_tap_survives_its_worker(engine: str) -> None:
    if engine != "embedded":
        pytest.skip("there is no process to lose")
    data = df.FlowData()
    node = mortal.fnode()
    graph = df.FlowGraph([node(data)])
    tap = graph.tap(node)
    codes = []
    for value in (1, 13, 2, 3):
        graph.feed({data: value})
        codes.append(graph.fetch(timeout=10_000)[1])
    assert codes == [0, 145000, 0, 0]
    assert eventually(lambda: tap.values()[-2:] == [2, 3])
    assert graph.statistics()[0]["restarts"] == 1


def test_what_cannot_be_tapped_is_told(flow: dict[str, str]) -> None:
    graph, _, _ = chain()
    with pytest.raises(df.DfException, match="grow_fnode, label_fnode, data"):
        graph.tap("nobody")
    with pytest.raises(df.DfException, match="1 to 4096"):
        graph.tap("grow_fnode", last=0)
    with pytest.raises(df.DfException, match="has no"):
        graph.tap(grow.fnode())
