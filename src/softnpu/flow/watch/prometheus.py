"""The numbers as Prometheus text, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from softnpu.flow.running import cells
from softnpu.flow.running.cells import STATES
from softnpu.flow.watch.metrics import Metrics, Row

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "softnpu_flow_"
# Powers of four nanoseconds, from 1 µs to 69 s: edges of our own buckets, so that the counts are exact.
_EDGES = tuple(1 << bits for bits in range(10, 37, 2))
_Line = tuple[dict[str, str], float]

_COUNTERS = (
    ("calls_total", "Calls of the functions of a node.", "calls"),
    ("failures_total", "Calls that failed.", "failures"),
    ("received_total", "Messages that came to a node.", "received"),
    ("sent_total", "Messages that a node sent; one for all consumers of an output.", "sent"),
    ("dropped_total", "Messages that a full queue with the policy OVERWRITE gave up.", "dropped"),
    ("restarts_total", "How often the process of a node was started again.", "restarts"),
    ("busy_seconds_total", "Time inside the functions of a node.", "busy_seconds"),
)


def prometheus(session: Any) -> str:
    """All node instances of a session."""
    metrics = Metrics(session)
    return render(metrics, metrics.rows())


def render(metrics: Metrics, rows: list[Row]) -> str:
    """The text for rows that were read already."""
    graph = metrics.source.plan.name
    labels = [{"graph": graph, "node": row.node, "instance": str(row.instance)} for row in rows]
    parts = [_family(name, "counter", text, _plain(labels, rows, field)) for name, text, field in _COUNTERS]
    parts.append(_family("queue_depth", "gauge", "Messages that wait for a node.", _plain(labels, rows, "queue")))
    known = [(label, float(row.memory)) for label, row in zip(labels, rows, strict=True) if row.memory is not None]
    parts.append(_family("memory_bytes", "gauge", "Resident memory of the process of a node.", known))
    states = [
        ({**label, "state": state}, float(row.state == state))
        for label, row in zip(labels, rows, strict=True)
        for state in STATES
    ]
    parts.append(_family("state", "gauge", "1 for the state that a node is in.", states))
    cell_rows = metrics.source.rows
    parts.append(
        _histogram(
            "call_seconds", "Duration of calls.", labels, [row.words for row in cell_rows], cells.TIMES, cells.BUSY
        )
    )
    parts.append(
        _histogram(
            "wait_seconds",
            "Time between the arrival of a message and its call; of the first 63 messages and of each eighth later.",
            labels,
            [row.words for row in cell_rows],
            cells.WAITS,
            cells.WAITED,
        )
    )
    return "".join(parts)


def _plain(labels: list[dict[str, str]], rows: list[Row], field: str) -> list[_Line]:
    return [(label, float(getattr(row, field))) for label, row in zip(labels, rows, strict=True)]


def _family(name: str, kind: str, text: str, lines: Iterable[_Line]) -> str:
    return _head(name, kind, text) + "".join(_line(name, labels, value) for labels, value in lines)


def _histogram(
    name: str, text: str, labels: list[dict[str, str]], rows: list[memoryview], first: int, total: int
) -> str:
    parts = [_head(name, "histogram", text)]
    for label, words in zip(labels, rows, strict=True):
        seconds = words[total] / 1e9
        sums = list(accumulate(words[first : first + cells.BUCKETS].tolist()))
        for edge in _EDGES:
            # the bucket of the edge itself begins there: what lies below it is in the one before
            parts.append(_line(f"{name}_bucket", {**label, "le": repr(edge / 1e9)}, sums[cells.bucket(edge) - 1]))
        parts.append(_line(f"{name}_bucket", {**label, "le": "+Inf"}, sums[-1]))
        parts.append(_line(f"{name}_sum", label, seconds))
        parts.append(_line(f"{name}_count", label, sums[-1]))
    return "".join(parts)


def _head(name: str, kind: str, text: str) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {_PREFIX}{name} {text}\n# TYPE {_PREFIX}{name} {kind}\n"


def _line(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    number = int(value) if value == int(value) else value
    return f"{_PREFIX}{name}{{{inside}}} {number!r}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
