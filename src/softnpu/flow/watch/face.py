"""What a program can see of its graph: methods that FlowGraph takes over. Nothing is loaded before the first of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO, cast

from softnpu.flow import codes, settings

if TYPE_CHECKING:
    from softnpu.flow.application.graph import FlowGraph
    from softnpu.flow.drawing.nodes import FlowData, FlowNode, FlowOutput
    from softnpu.flow.watch.metrics import Metrics
    from softnpu.flow.watch.progress import Progress
    from softnpu.flow.watch.taps import Tap, Tapped
    from softnpu.flow.watch.view import Watch


class Watched:
    """Mixed into FlowGraph, which has `_lock`, `_session` and `name`."""

    name: str
    _lock: threading.Lock
    _session: Any
    _output_idx_mapping: list[int]
    _watched_session: Any = None  # stays after the end, so that the last numbers can be read
    _metrics: Metrics | None = None
    _since = 0

    def __init__(self) -> None:
        self._on_session: list[Callable[[Any], None]] = []

    # ---- for the graph and for this room -----------------------------------------------------------------------------

    def _begin_watching(self, session: Any) -> None:
        """The engine runs, nothing was fed yet."""
        self._since = time.perf_counter_ns()
        self._watched_session = session
        chosen = settings.load(session.plan.options)
        if chosen.timeline or chosen.metrics_port:
            from softnpu.flow.watch.start import attach

            attach(session)
        for callback in self._on_session:
            callback(session)
        self._on_session.clear()

    def on_session(self, callback: Callable[[Any], None]) -> None:
        """Call it with the running engine: now, or before the first feed."""
        with self._lock:
            if self._session is None:
                self._on_session.append(callback)
                return
        callback(self._session)

    def _timed_out(self, code: int, wait: float | None) -> None:
        if code == codes.QUEUE_EMPTY and wait and self._session is not None:
            from softnpu.flow.watch.report import timed_out

            timed_out(self._session, wait, self.metrics(), self._output_idx_mapping)

    def metrics(self) -> Metrics | None:
        """The numbers of the running graph; None before the first feed."""
        if self._metrics is None and self._watched_session is not None:
            from softnpu.flow.watch.metrics import Metrics

            self._metrics = Metrics(self._watched_session, self._since)
        return self._metrics

    # ---- for programs ------------------------------------------------------------------------------------------------

    def statistics(self) -> list[dict[str, Any]]:
        """One dict for each node instance: calls, failures, rate, busy, queue, percentiles, memory and more."""
        metrics = self.metrics()
        return [] if metrics is None else [asdict(row) for row in metrics.rows()]

    def visualize(self, path: str | os.PathLike[str] | None = None, fmt: str = "") -> str:
        """A picture of the graph: `svg`, `dot` or `mermaid`, as text and into a file; with live numbers if it runs."""
        from softnpu.flow.watch.picture import visualize

        return visualize(cast("FlowGraph", self), path, fmt)

    def watch(self, refresh: float = 0.5, stream: TextIO | None = None) -> Watch:
        """`with graph.watch(): …` shows the nodes at work on a terminal; elsewhere one table at the end."""
        from softnpu.flow.watch.view import Watch

        return Watch(cast("FlowGraph", self), refresh, stream)

    def progress(
        self, items: Iterable[Any] | None = None, total: int | None = None, stream: TextIO | None = None
    ) -> Progress:
        """`with graph.progress(total=n): …`, or `for item in graph.progress(items): …`; nothing is shown in a pipe."""
        from softnpu.flow.watch.progress import Progress

        return Progress(cast("FlowGraph", self), items, total, stream)

    def tap(
        self,
        target: FlowNode | FlowOutput | FlowData | str,
        callback: Callable[[Tapped], None] | None = None,
        last: int = 16,
    ) -> Tap:
        """Keep the last messages that pass an output, all outputs of a node, or an input of the graph."""
        from softnpu.flow.watch.taps import tap

        return tap(cast("FlowGraph", self), target, callback, last)

    def report(self) -> str:
        """Where every node stands, and what holds a result back."""
        if self._watched_session is None:
            return f"graph {self.name} was not fed yet, so nothing can come out"
        from softnpu.flow.watch.report import report

        return report(self._watched_session, self.metrics(), self._output_idx_mapping)
