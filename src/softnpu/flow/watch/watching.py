"""What can be seen of one graph: an object that the graph has, and tells when its engine starts and ends.

Modules of this room are imported in the method that needs them: `import dataflow`, which takes 40 ms, would take half as long
again with them, and a program that only feeds and fetches needs none.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO

from softnpu.flow import settings

if TYPE_CHECKING:
    from softnpu.flow.application.graph import FlowGraph
    from softnpu.flow.drawing.nodes import FlowData, FlowNode, FlowOutput
    from softnpu.flow.watch.metrics import Metrics
    from softnpu.flow.watch.progress import Progress
    from softnpu.flow.watch.taps import Tap, Tapped
    from softnpu.flow.watch.view import Watch


class Watching:
    """Holds the session of a graph, from its start on; does not hold the graph, which is passed to what draws it."""

    def __init__(self, name: str, outputs: Sequence[int]) -> None:
        self._name = name
        self._outputs = outputs  # the engine's number of each output of the program
        self._lock = threading.Lock()
        self._session: Any = None  # stays after the end, so that the last numbers can be read
        self._running = False
        self._since = 0
        self._metrics: Metrics | None = None
        self._on_session: list[Callable[[Any], None]] = []

    # ---- what the graph tells ----------------------------------------------------------------------------------------

    def began(self, session: Any) -> None:
        """The engine runs, nothing was fed yet."""
        self._since = time.perf_counter_ns()
        chosen = settings.load(session.plan.options)
        if chosen.timeline or chosen.metrics_port:
            from softnpu.flow.watch.start import attach  # http.server: 17 ms

            attach(session)
        with self._lock:
            self._session, self._running = session, True
            callbacks, self._on_session = self._on_session, []
        for callback in callbacks:
            callback(session)

    def ended(self) -> None:
        """The graph was closed, or could not be watched as asked."""
        with self._lock:
            self._running = False

    def timed_out(self, wait: float | None) -> None:
        """A fetch found nothing; if it waited for it, the log says what holds a result back."""
        if wait and self._running:
            from softnpu.flow.watch.report import timed_out  # 5 ms with the numbers

            timed_out(self._session, wait, self.metrics(), self._outputs)

    # ---- what programs ask -------------------------------------------------------------------------------------------

    def on_session(self, callback: Callable[[Any], None]) -> None:
        """Call it with the running engine: now, or before the first feed."""
        with self._lock:
            if not self._running:
                self._on_session.append(callback)
                return
        callback(self._session)

    def metrics(self) -> Metrics | None:
        """The numbers of the running graph; None before the first feed."""
        if self._metrics is None and self._session is not None:
            from softnpu.flow.watch.metrics import Metrics  # 4 ms

            self._metrics = Metrics(self._session, self._since)
        return self._metrics

    def statistics(self) -> list[dict[str, Any]]:
        """One dict for each node instance."""
        metrics = self.metrics()
        return [] if metrics is None else [asdict(row) for row in metrics.rows()]

    def report(self) -> str:
        """Where every node stands, and what holds a result back."""
        if self._session is None:
            return f"graph {self._name} was not fed yet, so nothing can come out"
        from softnpu.flow.watch.report import report  # 5 ms with the numbers

        return report(self._session, self.metrics(), self._outputs)

    # ---- of a graph --------------------------------------------------------------------------------------------------

    @staticmethod
    def picture(graph: FlowGraph, path: str | os.PathLike[str] | None, fmt: str) -> str:
        """See FlowGraph.visualize."""
        from softnpu.flow.watch.picture import visualize  # 6 ms with the numbers

        return visualize(graph, path, fmt)

    @staticmethod
    def view(graph: FlowGraph, refresh: float, stream: TextIO | None) -> Watch:
        """See FlowGraph.watch."""
        from softnpu.flow.watch.view import Watch  # 5 ms with the numbers

        return Watch(graph, refresh, stream)

    @staticmethod
    def progress(graph: FlowGraph, items: Iterable[Any] | None, total: int | None, stream: TextIO | None) -> Progress:
        """See FlowGraph.progress."""
        from softnpu.flow.watch.progress import Progress  # 5 ms with the numbers

        return Progress(graph, items, total, stream)

    @staticmethod
    def tap(
        graph: FlowGraph,
        target: FlowNode | FlowOutput | FlowData | str,
        callback: Callable[[Tapped], None] | None,
        last: int,
    ) -> Tap:
        """See FlowGraph.tap."""
        from softnpu.flow.watch.taps import tap  # 1 ms

        return tap(graph, target, callback, last)
