"""Why nothing comes out, how far a run is, and the table of nodes at work."""

from __future__ import annotations

import io
import re
import time
from typing import Any

import pytest

import dataflow as df
from softnpu.flow.watch import words
from softnpu.flow.watch.view import table
from tests.waiting import eventually


@df.pyflow
def sleepy(x):  # type: ignore[no-untyped-def]
    time.sleep(x)
    return x


@df.pyflow
def add(x, y):  # type: ignore[no-untyped-def]
    return x + y


@df.pyflow
def add_one(x):  # type: ignore[no-untyped-def]
    return x + 1


@df.pyflow
def same(x):  # type: ignore[no-untyped-def]
    return x


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_report_before_the_first_feed(flow: dict[str, str]) -> None:
    graph = df.FlowGraph([same.fnode()(df.FlowData())], name="quiet")
    assert graph.report() == "graph quiet was not fed yet, so nothing can come out"


def test_a_long_call_is_named_when_nothing_comes_out(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    if engine != "embedded":
        pytest.skip("inline is inside feed meanwhile; the rows of Ray come when their workers send them")
    data = df.FlowData()
    graph = df.FlowGraph([sleepy.fnode()(data)])
    for seconds in (3.0, 0.0, 0.0):
        graph.feed({data: seconds})
    assert graph.fetch(timeout=20) == ([], 207013)
    assert "came out" not in capsys.readouterr().out  # somebody who polls
    assert graph.fetch(timeout=1200) == ([], 207013)
    text = capsys.readouterr().out
    assert "nothing came out within 1.2 s (207013)" in text
    assert re.search(r"node sleepy_fnode has been inside sleepy for [12]", text)
    assert "transaction 1; 2 message(s) wait for it" in text
    assert [graph.fetch()[1] for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("aligned", [False, True])
def test_an_input_that_never_comes_is_named(engine: str, aligned: bool) -> None:
    if engine == "ray" or (engine == "inline" and aligned):
        pytest.skip("only embedded counts what left a queue")
    one, two = df.FlowData(name="one"), df.FlowData(name="two")
    graph = df.FlowGraph([add.fnode()(same.fnode()(one), two)])
    if aligned:
        graph.set_inputs_align_attrs(16, -1)
    for value in range(3):
        graph.feed({one: value}, partial_inputs=True)
    assert eventually(lambda: "input 0 has 3 message(s)" in graph.report())
    assert "node add_fnode waits for input 1 (from the application, two) to call add" in graph.report()
    graph.feed({two: 1}, partial_inputs=True)
    assert graph.fetch() == ([1], 0)


def test_outputs_that_wait_for_each_other(engine: str) -> None:
    """The numbers are those of the program, which names its outputs in another order than the engine has them."""
    if engine == "ray":
        pytest.skip("the application's queues are not in its rows")
    one, two = df.FlowData(name="one"), df.FlowData(name="two")
    node = pair.fnode()
    first, second = node(one)
    other = same.fnode()(two)
    graph = df.FlowGraph([second, other, first])
    for value in range(2):
        graph.feed({one: value}, partial_inputs=True)
    assert eventually(lambda: "output 0 has 2, output 2 has 2 result(s), output 1 none" in graph.report())


@df.pyflow(num_returns=2)
def pair(x):  # type: ignore[no-untyped-def]
    return x, x + 1


def test_an_output_that_nobody_fetches_is_named(engine: str) -> None:
    if engine == "ray":
        pytest.skip("the application's queues are not in its rows")
    data = df.FlowData()
    node = same.fnode()
    node.set_attr("_flow_attr_depth", 2)
    graph = df.FlowGraph([node(data)])
    while graph.feed({data: 1}, timeout=200) == 0:
        pass
    text = r"node same_fnode waits for room: an output of the graph, which nobody fetches, has [23] message"
    assert re.search(text, graph.report())


def test_a_graph_that_is_empty_says_so(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data)])
    graph.feed({data: 1})
    graph.fetch()
    assert eventually(lambda: "nothing is on its way" in graph.report())


def test_a_graph_that_is_empty_says_so_also_after_a_failure(flow: dict[str, str]) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([add_one.fnode()(data)])
    graph.feed({data: None})
    assert graph.fetch(timeout=1000) == ([], 145000)
    said = graph.report()
    assert "nothing is on its way" in said and "1 call(s) failed" in said


# ---- the live view and progress ------------------------------------------------------------------------------------------


def test_table_and_watch_in_a_pipe(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data)])
    out = io.StringIO()
    with graph.watch(stream=out):
        for value in range(5):
            graph.feed({data: value})
            graph.fetch()
        assert eventually(lambda: graph.statistics()[0]["calls"] == 5)
        assert out.getvalue() == ""
    head, line = out.getvalue().splitlines()
    assert head.split()[:4] == ["node", "state", "calls", "rate"]
    assert line.split()[:3] == ["same_fnode", "ready", "5"]
    assert table(graph._session).splitlines()[0].split() == head.split()


@pytest.mark.parametrize(("columns", "heads"), [("200", {"memory", "restarts", "queue"}), ("80", {"queue", "failed"})])
def test_watch_on_a_terminal(
    flow: dict[str, str], monkeypatch: pytest.MonkeyPatch, columns: str, heads: set[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", columns)
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data)])
    out = Terminal()
    with graph.watch(refresh=0.02, stream=out):
        assert eventually(lambda: "not fed yet" in out.getvalue())
        graph.feed({data: 1})
        assert eventually(lambda: "same_fnode" in out.getvalue())
    drawn = "\n".join(out.getvalue().splitlines()[:-2])  # a plain table stays at the end
    assert "not fed yet" in drawn
    shown = set(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).split())
    assert heads <= shown
    assert ("memory" in shown) == (columns == "200")
    assert out.getvalue().splitlines()[-1].startswith("same_fnode")


def test_progress_counts_what_was_fed_fetched_and_failed(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([failing.fnode()(data)])
    out = Terminal()
    with graph.progress(total=20, stream=out) as progress:
        for value in range(20):
            graph.feed({data: value})
        assert graph.fetch(indexes=[0], timeout=5000)[1] == 0
        for _ in range(19):
            graph.fetch(timeout=5000)
        assert graph.fetch(timeout=0)[1] == 207013
    assert (progress.fed_count, progress.fetched_count, progress.failed_count) == (20, 20, 2)
    last = out.getvalue().split("\r\x1b[K")[-1]
    assert last.endswith("\n")
    assert "100% fed 20, fetched 20 of 20 · 2 failed · " in last
    assert not {"feed_many", "fetch"} & graph._session.__dict__.keys()


@df.pyflow
def failing(x):  # type: ignore[no-untyped-def]
    if x in (3, 4):
        raise ValueError(x)
    return x


def test_progress_as_an_iterator_in_a_pipe(flow: dict[str, str]) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data)])
    out = io.StringIO()
    progress = graph.progress([5, 6, 7], stream=out)
    results: list[Any] = []
    for value in progress:
        graph.feed({data: value})
        results += graph.fetch()[0]
    assert results == [5, 6, 7]
    assert (progress.total, progress.fetched_count, out.getvalue()) == (3, 3, "")
    with pytest.raises(TypeError, match=r"graph\.progress"):
        list(graph.progress(total=3))


def test_the_time_left_follows_the_last_ten_seconds(monkeypatch: pytest.MonkeyPatch, flow: dict[str, str]) -> None:
    graph = df.FlowGraph([same.fnode()(df.FlowData())])
    now = [100.0]
    monkeypatch.setattr("softnpu.flow.watch.progress.time.monotonic", lambda: now[0])
    with graph.progress(total=100, stream=io.StringIO()) as progress:
        progress.fetched_count = 20
        now[0] += 4.0
        # 20 in 4 s: 5/s, and 80 are to come
        assert progress.line().endswith("fed 0, fetched 20 of 100 · 5/s · 0:04 · 0:16 left")
        progress.fetched_count = 21
        now[0] += 10.0
        assert "0.1/s" in progress.line()  # of the last ten seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0"),
        (3e-9, "3 ns"),
        (1.5e-6, "1.5 µs"),
        (0.0123, "12.3 ms"),
        (0.9999, "1e+03 ms"),
        (2.5, "2.5 s"),
        (3723, "1:02:03"),
    ],
)
def test_durations_are_short_texts(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text.replace("1e+03", "1000")
