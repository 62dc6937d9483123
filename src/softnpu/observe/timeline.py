"""Timelines: spans collected from the trace bus, as rows for a terminal or as a file that Perfetto opens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from softnpu.base.trace import Span, bus


class Recorder:
    """Collects spans while it is entered: `with Recorder() as recorder: …`."""

    def __init__(self, kinds: Iterable[str] = ("task",)) -> None:
        self.kinds = frozenset(kinds)
        self.spans: list[Span] = []

    def _listen(self, span: Span) -> None:
        if span.kind in self.kinds:
            self.spans.append(span)

    def __enter__(self) -> Recorder:
        self._stop = bus.subscribe(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


def rows(spans: list[Span], width: int) -> tuple[list[tuple[str, list[str]]], float]:
    """One row of `width` cells per stream (a cell names the task that ran longest in it, "" for idle), and ms in all."""
    if not spans:
        return [], 0.0
    start = min(span.start for span in spans)
    whole = max(1, max(span.end for span in spans) - start)
    lanes: dict[tuple[int, int], list[dict[str, int]]] = {}
    for span in spans:
        cells = lanes.setdefault((span.device, span.stream), [{} for _ in range(width)])
        for index in range(_cell(span.start, start, whole, width), _cell(span.end, start, whole, width) + 1):
            low, high = start + whole * index // width, start + whole * (index + 1) // width
            share = min(span.end, high) - max(span.start, low)
            if share > 0:
                cells[index][span.name] = cells[index].get(span.name, 0) + share
    drawn = [
        (f"device {device} stream {stream}", [max(cell, key=lambda name: cell[name]) if cell else "" for cell in cells])
        for (device, stream), cells in sorted(lanes.items())
    ]
    return drawn, whole / 1e6


def _cell(moment: int, start: int, whole: int, width: int) -> int:
    return min(width - 1, (moment - start) * width // whole)


def busy_ms(spans: list[Span]) -> float:
    """The sum of all spans in milliseconds: what one stream alone would have needed."""
    return sum(span.end - span.start for span in spans) / 1e6


def write_chrome_trace(spans: list[Span], path: Path) -> None:
    """A trace file (JSON, times in µs from the first span) that ui.perfetto.dev and chrome://tracing open."""
    start = min((span.start for span in spans), default=0)
    events: list[dict[str, object]] = []
    for device, stream in sorted({(span.device, span.stream) for span in spans}):
        events.append({"ph": "M", "name": "process_name", "pid": device, "args": {"name": f"device {device}"}})
        events.append(
            {"ph": "M", "name": "thread_name", "pid": device, "tid": stream, "args": {"name": f"stream {stream}"}}
        )
    for span in spans:
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": span.kind,
                "pid": span.device,
                "tid": span.stream,
                "ts": (span.start - start) / 1000,
                "dur": (span.end - span.start) / 1000,
                "args": span.detail,
            }
        )
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")
    part.replace(path)
