"""The numbers of all nodes as a table: live on a terminal, once at the end where the output goes to a file."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from softnpu.flow.watch.metrics import Metrics, Row
from softnpu.flow.watch.words import columns, duration, rate, share, size

if TYPE_CHECKING:
    from rich.table import Table

    from softnpu.flow.application.graph import FlowGraph

_HEADS = (
    "node", "state", "calls", "rate", "busy", "queue", "p50", "p90", "p99", "wait p50", "wait p99", "failed", "dropped",
    "restarts", "memory",
)  # fmt: skip
_LEFT = 2  # columns of text; numbers stand to the right
_QUEUE_AT, _FAILED_AT = 5, 11
_SPARE = (13, 12, 7, 14, 9, 10, 6)  # columns that a narrow terminal does without, in this order


def cells_of(row: Row, several: bool) -> list[str]:
    """One line of the table."""
    state = row.state
    if row.function:
        state = f"in {row.function} {duration(row.since)}" if row.since > 1 else f"in {row.function}"
    return [
        f"{row.node} #{row.instance}" if several else row.node,
        state,
        f"{row.calls:,}",
        rate(row.rate),
        share(row.busy),
        str(row.queue),
        *(duration(each) for each in (row.call_p50, row.call_p90, row.call_p99, row.wait_p50, row.wait_p99)),
        str(row.failures),
        str(row.dropped),
        str(row.restarts),
        size(row.memory),
    ]


def lines_of(rows: list[Row]) -> list[list[str]]:
    """All lines; instances have a number where a node has several."""
    names = [row.node for row in rows]
    return [cells_of(row, names.count(row.node) > 1) for row in rows]


def table(session: Any, metrics: Metrics | None = None) -> str:
    """A table in plain text."""
    return plain((metrics or Metrics(session)).rows())


def plain(rows: list[Row]) -> str:
    """The table of rows that were read already."""
    lines = [list(_HEADS), *lines_of(rows)]
    widths = [max(columns(line[at]) for line in lines) for at in range(len(_HEADS))]
    return "\n".join(
        "  ".join(_padded(text, widths[at], at < _LEFT) for at, text in enumerate(line)).rstrip() for line in lines
    )


def _padded(text: str, wide: int, left: bool) -> str:
    space = " " * (wide - columns(text))
    return text + space if left else space + text


def _fitting(lines: list[list[str]], most: int) -> list[int]:
    """The columns for which a terminal has room."""
    widths = [max(columns(line[at]) for line in (list(_HEADS), *lines)) + 2 for at in range(len(_HEADS))]
    kept = list(range(len(_HEADS)))
    for spare in _SPARE:
        if sum(widths[at] for at in kept) <= most:
            break
        kept.remove(spare)
    return kept


def rich_table(title: str, rows: list[Row], most: int) -> Table:
    """The same for a terminal of so many columns, with what needs attention in colour."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        header_style="bold",
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    lines = lines_of(rows)
    kept = _fitting(lines, most)
    for at in kept:
        if at < _LEFT:
            table.add_column(_HEADS[at], no_wrap=True)
        else:  # numbers are never cut
            wide = max(columns(line[at]) for line in (list(_HEADS), *lines))
            table.add_column(_HEADS[at], justify="right", no_wrap=True, min_width=wide)
    for row, line in zip(rows, lines, strict=True):
        texts = [escape(text) for text in line]
        texts[0] = f"[bold]{texts[0]}[/]"
        if row.failures:
            texts[_FAILED_AT] = f"[red]{texts[_FAILED_AT]}[/]"
        if row.queue and (row.busy or 0) > 0.9:
            texts[_QUEUE_AT] = f"[yellow]{texts[_QUEUE_AT]}[/]"
        table.add_row(*(texts[at] for at in kept))
    return table


class Watch:
    """Shows a graph while the block runs. On a terminal it is drawn again and again; else there is one table at the end."""

    def __init__(self, graph: FlowGraph, refresh: float = 0.5, stream: TextIO | None = None) -> None:
        self._graph = graph
        self._refresh = refresh
        self._stream = stream
        self._metrics: Metrics | None = None
        self._live: Any = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        self._stream = self._stream or sys.stderr
        self._graph.on_session(self._attach)
        if on_terminal(self._stream):
            self._draw()
        return self

    def _draw(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream)
        if console.is_dumb_terminal:
            return
        self._live = Live(self._drawn(console.width), console=console, auto_refresh=False, transient=True)
        self._live.start(refresh=True)
        self._thread = threading.Thread(target=self._run, daemon=True, name="dataflow watch")
        self._thread.start()

    def _attach(self, session: Any) -> None:
        self._metrics = self._graph.metrics() or Metrics(session)

    def _drawn(self, most: int) -> Any:
        if self._metrics is None:
            return f"{self._graph.name}: not fed yet"
        return rich_table(self._graph.name, self._metrics.rows(), most)

    def _run(self) -> None:
        while not self._ending.wait(self._refresh):
            self._live.update(self._drawn(self._live.console.width), refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._live.stop()
        if self._metrics is not None and self._stream is not None:
            self._stream.write(plain(self._metrics.rows()) + "\n")
            self._stream.flush()


def on_terminal(stream: Any) -> bool:
    """Whether there is somebody to draw for."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # no stream at all, or a closed one
        return False
