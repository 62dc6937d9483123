"""Mistakes in programs: the text says what is wrong and what to do."""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import Any

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from softnpu.flow import engines

FLOW = pytest.mark.usefixtures("flow")


@df.pyflow
def double(value: Any) -> Any:
    return value * 2


@df.pyflow(num_returns=2)
def twins(value: Any) -> Any:
    return value, value


def graph_of(function: Any) -> tuple[df.FlowData, df.FlowGraph]:
    data = df.FlowData()
    outputs = function.fnode()(data)
    return data, df.FlowGraph(list(outputs) if isinstance(outputs, tuple) else [outputs])


# ---- drawing --------------------------------------------------------------------------------------------------------------


async def waits(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def streams(value: Any) -> Any:
    yield value


@pytest.mark.parametrize("function", [waits, streams])
def test_async_functions_are_refused_when_they_are_decorated(function: Any) -> None:
    with pytest.raises(TypeError, match=r"async function.*asyncio\.run"):
        df.pyflow(function)
    with pytest.raises(TypeError, match="async function"):
        df.method()(function)


@FLOW
def test_the_wrong_thing_as_an_input_says_what_to_pass() -> None:
    data = df.FlowData()
    with pytest.raises(df.DfException, match=r"is a tuple of 2; pass one of them"):
        double.fnode()(twins.fnode()(data))
    with pytest.raises(df.DfException, match=r"is the node double_fnode.*; call it"):
        double.fnode()(double.fnode())
    with pytest.raises(df.DfException, match=r"of type int; pass a df\.FlowData.*feed"):
        double.fnode()(3)


@FLOW
def test_the_wrong_thing_as_outputs_says_what_to_pass() -> None:
    data = df.FlowData()
    output = double.fnode()(data)
    for wrong in (output, (output,)):
        with pytest.raises(df.DfException, match=r"write FlowGraph\(\[…\]\)"):
            df.FlowGraph(wrong)
    with pytest.raises(df.DfException, match=r"the node double_fnode.*call it"):
        df.FlowGraph([double.fnode()])
    with pytest.raises(df.DfException, match=r"its elements"):
        df.FlowGraph([twins.fnode()(data)])
    with pytest.raises(df.DfException, match=r"FlowData.* is none"):
        df.FlowGraph([data])


def test_proc_wrapper_without_parentheses_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r'@proc_wrapper\("i0,o0"\)'):

        class Bare:
            @ff.proc_wrapper
            def work(self, run_context: Any, messages: Any) -> int:
                return 0


@FLOW
def test_a_process_point_without_code_is_named() -> None:
    data, node = df.FlowData(), df.FlowNode(1, 1)
    node.add_process_point(df.FuncProcessPoint(name="empty"))
    with pytest.raises(df.DfException, match=r"process point empty, which does nothing; give it py_func"):
        df.FlowGraph([node(data)]).feed({data: 1})


@FLOW
def test_code_that_holds_on_to_a_lock_says_where_to_make_it() -> None:
    lock = threading.Lock()

    @df.pyflow
    def guarded(value: Any) -> Any:
        with lock:
            return value

    with pytest.raises(TypeError, match=r"guarded cannot be sent.*Make what it needs inside it"):
        guarded.fnode()


# ---- feed and fetch ---------------------------------------------------------------------------------------------------------


@FLOW
def test_an_index_that_is_no_list_says_what_to_write() -> None:
    data, graph = graph_of(twins)
    graph.feed({data: 1})
    for wrong in (0, 5000):
        with pytest.raises(TypeError, match=rf"write \[{wrong}\], or timeout={wrong}"):
            graph.fetch(wrong)
    assert graph.fetch([0]) == ([1], 0)


@FLOW
def test_a_timeout_in_seconds_says_how_many_milliseconds_it_is() -> None:
    data, graph = graph_of(double)
    with pytest.raises(TypeError, match=r"whole milliseconds, not 0\.5; 0\.5 seconds are 500"):
        graph.feed({data: 1}, timeout=0.5)  # type: ignore[arg-type]
    assert graph.feed({data: 1}, timeout=500.0) == 0  # type: ignore[arg-type]


@FLOW
def test_a_graph_that_can_give_nothing_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert df.FlowGraph([]).feed({}) == 145000
    assert "the graph has no input" in capsys.readouterr().out
    data = df.FlowData()
    graph = df.FlowGraph([double.fnode()(data)], {"ge.runFlag": "0"})
    assert graph.feed({data: 1}) == 0 and graph.fetch(timeout=0) == ([], 0xFFFFFFFF)
    assert "is only compiled (ge.runFlag is 0)" in capsys.readouterr().out


def test_user_data_that_is_a_text_says_to_encode_it() -> None:
    with pytest.raises(TypeError, match=r"bytes, not str; a text needs \.encode\(\)"):
        df.FlowInfo().set_user_data("frame")  # type: ignore[arg-type]


# ---- running ----------------------------------------------------------------------------------------------------------------


@FLOW
def test_a_batch_that_refuses_a_message_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    data, point, node = df.FlowData(), df.FuncProcessPoint(py_func=double), df.FlowNode(1, 1)
    node.add_process_point(point)
    node.map_input(0, point, 0, [df.TimeBatch(time_window=5)])
    graph = df.FlowGraph([node(data)])
    graph.feed_data({data: np.ones(2)}, df.FlowInfo(start_time=0, end_time=2))
    graph.feed_data({data: np.ones(2)}, df.FlowInfo(start_time=1, end_time=5))
    assert graph.fetch_data(timeout=1000)[2] == 164000
    said = capsys.readouterr().out
    assert "TimeBatch: transaction 2 is refused: it starts at 1, the previous one ends at 2" in said
    assert "1 message(s) before it are dropped" in said


@FLOW
def test_too_many_open_files_says_how_many_graphs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    data, first = graph_of(double)
    first.feed({data: 1})

    def refuse(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(engines, "start", refuse)
    data, second = graph_of(double)
    with pytest.raises(df.DfException, match=r"1 graph\(s\) are running.*graph\.close\(\)"):
        second.feed({data: 1})


def test_a_misspelt_attribute_is_named(flow: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    from softnpu.flow import log

    before = log.get_log_level()
    log.set_log_level(log.WARNING)
    try:
        df.FlowNode(1, 1).set_attr("_flow_attr_dept", 4)
    finally:
        log.set_log_level(before)
    assert "_flow_attr_dept means nothing; known are _flow_attr, _flow_attr_depth" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value"), [("start_time", -1), ("end_time", 2**64), ("flow_flags", 2**32), ("transaction_id", "1")]
)
def test_numbers_that_do_not_fit_a_flow_info_are_told_at_the_feed(engine: str, name: str, value: Any) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([double.fnode()(data)])
    info = df.FlowInfo()
    setattr(info, name, value)
    assert graph.feed_data({data: [1]}, info) == 145000
    assert graph.feed_data({data: [1]}) == 0
