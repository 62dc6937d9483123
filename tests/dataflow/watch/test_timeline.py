"""Timelines: every call is there, arrows are whole, and times of different processes fit together."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dataflow as df
from softnpu.flow.watch.timeline import Timeline


@df.pyflow
def first(x):  # type: ignore[no-untyped-def]
    time.sleep(0.002)
    return x * 2


@df.pyflow
def left(x):  # type: ignore[no-untyped-def]
    return x + 1


@df.pyflow
def right(x):  # type: ignore[no-untyped-def]
    if x == 6:
        raise ValueError(x)
    return x - 1


def run(path: Path, count: int) -> df.FlowGraph:
    data = df.FlowData()
    middle = first.fnode()(data)
    graph = df.FlowGraph(
        [left.fnode()(middle), right.fnode()(middle)], graph_options={"softnpu.flow.timeline": str(path)}, name="fork"
    )
    for value in range(count):
        assert graph.feed({data: value}) == 0
    for _ in range(count):
        graph.fetch()
    return graph


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


def test_the_timeline_has_every_call_and_whole_arrows(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "sub" / "run.json"
    before = time.perf_counter_ns() / 1000
    graph = run(path, 40)
    assert not path.exists()  # nobody reads half of it
    graph.close()
    after = time.perf_counter_ns() / 1000
    assert [each.name for each in path.parent.iterdir()] == ["run.json"]
    found = events(path)
    processes = {each["pid"]: each["args"]["name"] for each in found if each["name"] == "process_name"}
    assert sorted(processes.values()) == ["application (fork)", "first_fnode", "left_fnode", "right_fnode"]
    calls = [each for each in found if each["ph"] == "X"]
    per_node = Counter(processes[each["pid"]] for each in calls)
    assert per_node == {"application (fork)": 80, "first_fnode": 40, "left_fnode": 40, "right_fnode": 40}
    assert all(before <= each["ts"] and each["ts"] + each["dur"] <= after for each in calls)
    assert sum(each["dur"] for each in calls if each["name"] == "first") >= 40 * 2000
    failed = [each for each in calls if each["cat"] == "failed" and processes[each["pid"]] == "right_fnode"]
    assert [each["args"] for each in failed] == [{"transaction": 4, "code": 564000}]
    check_arrows(found, calls, processes)


def check_arrows(found: list[dict[str, Any]], calls: list[dict[str, Any]], processes: dict[int, str]) -> None:
    """Each id begins once and ends once, inside calls of its transaction, on an edge of the graph."""
    begins = {each["id"]: each for each in found if each["ph"] == "s"}
    ends = {each["id"]: each for each in found if each["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert len(begins) == sum(each["ph"] in "sf" for each in found) / 2
    edges: Counter[tuple[str, str]] = Counter()
    for number, begin in begins.items():
        end = ends[number]
        assert begin["name"] == end["name"]
        assert begin["ts"] <= end["ts"]
        for each in (begin, end):
            transaction = int(each["name"].split()[1])
            assert any(
                call["pid"] == each["pid"]
                and call["tid"] == each["tid"]
                and call["args"]["transaction"] == transaction
                and call["ts"] - 0.01 <= each["ts"] <= call["ts"] + call["dur"] + 0.01
                for call in calls
            )
        edges[processes[begin["pid"]], processes[end["pid"]]] += 1
    app = "application (fork)"
    assert edges[app, "first_fnode"] == edges["first_fnode", "left_fnode"] == edges["first_fnode", "right_fnode"] == 40
    assert edges["left_fnode", app] == edges["right_fnode", app] == 40
    assert sum(edges.values()) == 200


def test_the_timeline_has_the_depths_of_the_queues(engine: str, tmp_path: Path) -> None:
    if engine != "embedded":
        pytest.skip("inline has no queues while it is fed; Ray sends its rows from time to time")
    run(tmp_path / "t.json", 60).close()
    depths = [each["args"]["messages"] for each in events(tmp_path / "t.json") if each["ph"] == "C"]
    assert max(depths) > 5  # 60 messages were fed while `first` took 2 ms for each
    assert min(depths) == 0


def test_two_graphs_have_two_files(flow: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    graphs = [run(path, 2), run(path, 3)]
    for graph in graphs:
        graph.close()
    counts = {
        each.name: sum(e["name"] == "first" for e in events(each) if e["ph"] == "X") for each in tmp_path.iterdir()
    }
    assert counts == {"t.json": 2, "t-2.json": 3}
    run(path, 4).close()  # the name is free again
    assert sum(each["name"] == "first" for each in events(path) if each["ph"] == "X") == 4


def test_nothing_is_wrapped_without_it(flow: dict[str, str]) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([left.fnode()(data)])
    graph.feed({data: 1})
    assert not {"feed_many", "fetch", "emit", "close"} & graph._session.__dict__.keys()
    assert graph._session.on_calls is None


def test_a_file_that_cannot_be_written(flow: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    data = df.FlowData()
    path = str(tmp_path / "file" / "t.json")
    graph = df.FlowGraph([left.fnode()(data)], graph_options={"softnpu.flow.timeline": path})
    with pytest.raises(df.DfException, match=r"cannot be written.*softnpu\.flow\.timeline"):
        graph.feed({data: 1})


def test_a_full_disk_does_not_stop_the_graph(
    flow: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """/dev/full takes nothing; the buffer is written when it is full and at the end."""
    data = df.FlowData()
    graph = df.FlowGraph([left.fnode()(data)])
    assert graph.feed({data: 1}) == 0
    timeline = Timeline(graph._session, tmp_path / "full.json")
    timeline._file.close()
    timeline._part.unlink()
    timeline._file = open("/dev/full", "w")  # noqa: SIM115
    for value in range(300):
        assert graph.feed({data: value}) == 0
        assert graph.fetch()[1] == 0
    timeline.close()
    assert "No space left" in capsys.readouterr().out
    assert not (tmp_path / "full.json").exists()
