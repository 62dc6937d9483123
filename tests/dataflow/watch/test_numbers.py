"""Numbers of running graphs: rows, percentiles, Prometheus text, and the server that hands it out."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest

import dataflow as df
from softnpu.flow.plan import BodySpec, Function, Node, Plan, Port
from softnpu.flow.running import cells
from softnpu.flow.watch.metrics import Metrics, memory_of
from softnpu.flow.watch.prometheus import prometheus
from softnpu.flow.watch.server import serve
from tests.waiting import eventually


@df.pyflow
def double(x):  # type: ignore[no-untyped-def]
    return x * 2


@df.pyflow
def slow(x):  # type: ignore[no-untyped-def]
    if x < 0:
        raise ValueError("negative")
    time.sleep(0.01)
    return x + 1


def chain() -> tuple[df.FlowGraph, df.FlowData]:
    data = df.FlowData(name="number")
    return df.FlowGraph([slow.fnode()(double.fnode()(data))], name="chain"), data


def by_name(graph: df.FlowGraph) -> dict[str, dict[str, Any]]:
    return {row["node"].removesuffix("_fnode"): row for row in graph.statistics()}


def settled(graph: df.FlowGraph, calls: int) -> bool:
    """A result may be here before the call that made it is counted."""
    return eventually(lambda: by_name(graph)["slow"]["calls"] == calls and by_name(graph)["slow"]["state"] == "ready")


def test_counts_rates_and_times(engine: str) -> None:
    graph, data = chain()
    assert graph.statistics() == []
    began = time.perf_counter()
    for value in [1, 2, -3, 4, 5, 6, 7, 8, 9, 10]:
        assert graph.feed({data: value}) == 0
    results = [graph.fetch() for _ in range(10)]
    assert settled(graph, 10)
    rows = by_name(graph)
    seconds = time.perf_counter() - began
    assert [code for _, code in results].count(0) == 9
    assert rows["double"]["calls"] == rows["slow"]["calls"] == 10
    assert (rows["double"]["failures"], rows["slow"]["failures"]) == (0, 1)
    assert rows["slow"]["received"] == rows["double"]["sent"] == 10
    assert rows["slow"]["sent"] == 9
    # nine calls of 10 ms and one that failed at once
    assert 0.09 <= rows["slow"]["busy_seconds"] <= seconds
    assert rows["slow"]["rate"] >= 10 / seconds * 0.9
    assert rows["slow"]["busy"] >= 0.09 / seconds * 0.9
    assert 0.010 <= rows["slow"]["call_p50"] <= seconds
    assert rows["double"]["call_p50"] < 0.01  # less than any call of the other
    assert rows["slow"]["queue"] == 0
    assert rows["slow"]["state"] == "ready"
    assert rows["slow"]["memory"] > 1 << 20
    if engine != "inline":
        # the last message waited for the calls before it
        assert rows["slow"]["wait_p99"] >= 0.06
        assert len({row["pid"] for row in rows.values()}) == 2
    df.finalize()
    assert by_name(graph)["slow"]["calls"] == 10


def test_queue_and_state_while_a_call_goes_on(engine: str) -> None:
    if engine != "embedded":
        pytest.skip("inline is inside feed meanwhile; the rows of Ray come when their workers send them")
    data = df.FlowData()
    graph = df.FlowGraph([very_slow.fnode()(data)])
    for value in range(6):
        graph.feed({data: value})
    assert eventually(lambda: by_name(graph)["very_slow"]["state"] == "calling")
    row = by_name(graph)["very_slow"]
    assert (row["state"], row["function"], row["trans_id"], row["queue"]) == ("calling", "very_slow", 1, 5)
    assert row["since"] < 10
    assert graph.fetch()[1] == 0


@df.pyflow
def very_slow(x):  # type: ignore[no-untyped-def]
    time.sleep(0.3)
    return x


def test_rate_is_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        plan = Plan(
            "g",
            (),
            (Node("n", 1, 1, (Function("n", (0,), (0,)),), BodySpec("")),),
            {},
            (Port(0, 0),),
        )

        def __init__(self) -> None:
            from softnpu.flow.transport.layout import arrange

            self.layout = arrange(self.plan, one_process=True)
            self.rows = [cells.Cells(bytearray(cells.ROW), 0)]
            self._channels: list[Any] = [FakeChannel() for _ in self.layout.channels]

    class FakeChannel:
        waiting: tuple[()] = ()

    session = Session()
    metrics = Metrics(session, window=0.2)
    words = session.rows[0].words
    words[cells.CALLS] = 1000
    first = metrics.rows()[0].rate
    now = time.perf_counter_ns()
    for quarter in (1, 2):  # two looks after more than the window each
        monkeypatch.setattr("softnpu.flow.watch.metrics._clock", lambda quarter=quarter: now + quarter * 250_000_000)
        if quarter == 1:
            metrics.rows()
    assert first > 1000
    assert metrics.rows()[0].rate == 0


def test_buckets_and_percentiles_against_numpy() -> None:
    random = np.random.default_rng(5)
    durations = np.exp(random.normal(12, 2, 4000)).astype(np.int64)
    counts = [0] * cells.BUCKETS
    for each in durations.tolist():
        counts[cells.bucket(each)] += 1
    edges = [cells.upper(index) for index in range(cells.BUCKETS)]
    expected = np.searchsorted(edges, durations, side="right")
    assert counts == np.bincount(expected, minlength=cells.BUCKETS).tolist()
    for share in (0.5, 0.9, 0.99):
        true = np.quantile(durations, share, method="inverted_cdf")
        assert true < cells.percentile(counts, share) <= true * 1.26
    assert cells.percentile([0] * cells.BUCKETS, 0.5) == 0


# ---- Prometheus ----------------------------------------------------------------------------------------------------------

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')
UNESCAPED = {r"\\": "\\", r"\n": "\n", r"\"": '"'}
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


def parsed(text: str) -> tuple[dict[str, str], dict[str, list[tuple[dict[str, str], float]]]]:
    """Types and samples; every line has to be one that the format knows."""
    types: dict[str, str] = {}
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert len(line.split(" ", 3)) == 4
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            labels = {
                key: re.sub(r'\\[\\n"]', lambda each: UNESCAPED[each[0]], value)
                for key, value in LABEL.findall(found[2])
            }
            family = re.sub(r"_(bucket|sum|count)$", "", found[1]) if "seconds" in found[1] else found[1]
            assert found[1] in types or family in types, line
            samples.setdefault(found[1], []).append((labels, float(found[3])))
    return types, samples


def test_the_prometheus_text_has_every_node_with_its_type(engine: str) -> None:
    graph, data = chain()
    for value in (1, -1, 2):
        graph.feed({data: value})
        graph.fetch()
    assert settled(graph, 3)
    types, samples = parsed(prometheus(graph._session))
    assert types["softnpu_flow_calls_total"] == "counter"
    assert types["softnpu_flow_call_seconds"] == "histogram"
    assert types["softnpu_flow_queue_depth"] == "gauge"
    calls = {labels["node"]: value for labels, value in samples["softnpu_flow_calls_total"]}
    assert calls == {"double_fnode": 3, "slow_fnode": 3}
    failures = {labels["node"]: value for labels, value in samples["softnpu_flow_failures_total"]}
    assert failures == {"double_fnode": 0, "slow_fnode": 1}
    assert all(labels["graph"] == "chain" and labels["instance"] == "0" for labels, _ in samples["softnpu_flow_state"])
    for name in ("call", "wait"):
        buckets = [
            (float(labels["le"]), value)
            for labels, value in samples[f"softnpu_flow_{name}_seconds_bucket"]
            if labels["node"] == "slow_fnode"
        ]
        assert buckets == sorted(buckets)
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == (float("inf"), 3)
    # 10 ms lie between 4.2 and 16.8 ms; the call that failed is below
    slow_calls = {
        float(labels["le"]): value
        for labels, value in samples["softnpu_flow_call_seconds_bucket"]
        if labels["node"] == "slow_fnode"
    }
    assert slow_calls[2**22 / 1e9] == 1
    sums = {labels["node"]: value for labels, value in samples["softnpu_flow_call_seconds_sum"]}
    busy = {labels["node"]: value for labels, value in samples["softnpu_flow_busy_seconds_total"]}
    assert sums == busy
    assert sums["slow_fnode"] >= 0.02


def test_labels_are_escaped() -> None:
    from softnpu.flow.watch import prometheus as module

    name = 'a "b"\\c\nd'
    text = module._family("calls_total", "counter", "A\nB", [({"node": name}, 2.5)])
    _, samples = parsed(text)
    assert samples == {"softnpu_flow_calls_total": [({"node": name}, 2.5)]}
    assert len(text.splitlines()) == 3


def test_server_needs_the_token(flow: dict[str, str]) -> None:
    graph, data = chain()
    graph.feed({data: 1})
    server = serve(graph._session, 0)
    try:
        base = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(server.url, timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            types, _ = parsed(answer.read().decode())
            assert "softnpu_flow_calls_total" in types
        request = urllib.request.Request(f"{base}/metrics", headers={"Authorization": f"Bearer {server.token}"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 200
        assert refused(f"{base}/metrics") == 401
        assert refused(f"{base}/metrics?token={server.token}x") == 401
        assert refused(f"{base}/metrics?token=%C3%A9") == 401
        assert refused(f"{base}/other?token={server.token}") == 404
        assert server._http.server_address[0] == "127.0.0.1"
    finally:
        server.close()


def refused(url: str) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url, timeout=5)
    caught.value.close()
    return caught.value.code


def test_port_option_serves_and_a_taken_port_is_refused(
    flow: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    graph, data = chain()
    graph.feed({data: 1})
    blocker = serve(graph._session, 0)
    options = {"softnpu.flow.metrics_port": str(blocker.port), "softnpu.flow.metrics_token": "abcdefgh"}
    refusing = df.FlowGraph([double.fnode()(data)], graph_options=options)
    with pytest.raises(df.DfException, match=f"port {blocker.port}"):
        refusing.feed({data: 1})
    blocker.close()
    assert refusing.feed({data: 1}) == 0
    url = f"http://127.0.0.1:{blocker.port}/metrics?token=abcdefgh"
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert answer.status == 200
    assert capsys.readouterr().err == ""  # the token was given, so it is not printed
    refusing.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)


def test_the_memory_of_a_process_that_is_gone_is_unknown() -> None:
    assert memory_of(2**22 + 1) is None
