"""How far a long run is: one line on a terminal, nothing in a file."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from softnpu.flow import codes
from softnpu.flow.message import Message
from softnpu.flow.watch import probe
from softnpu.flow.watch.view import on_terminal
from softnpu.flow.watch.words import clock, rate

if TYPE_CHECKING:
    from softnpu.flow.application.graph import FlowGraph

_PERIOD = 0.2
_WINDOW = 10.0
_BAR = 24


class Progress:
    """Counts what the graph is fed and what is fetched from it: `with graph.progress(total=1000): …`.

    With `items` it is also an iterator: `for item in graph.progress(items): graph.feed(…)`.
    """

    payloads = False

    def __init__(
        self,
        graph: FlowGraph,
        items: Iterable[Any] | None = None,
        total: int | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._graph = graph
        self._items = items
        self.total = total if total is not None else _length(items)
        self._stream = stream
        self._session: Any = None
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._began = 0.0
        self._past: deque[tuple[float, int]] = deque()
        self.fed_count = 0
        self.fetched_count = 0
        self.failed_count = 0

    def __enter__(self) -> Progress:
        self._stream = self._stream or sys.stderr
        self._began = time.monotonic()
        self._past.append((self._began, 0))
        self._graph.on_session(self._attach)
        if on_terminal(self._stream):
            self._thread = threading.Thread(target=self._run, daemon=True, name="dataflow progress")
            self._thread.start()
        return self

    def _attach(self, session: Any) -> None:
        if not self._ending.is_set():
            self._session = session
            probe.listen(session, self)

    def __iter__(self) -> Iterator[Any]:
        if self._items is None:
            raise TypeError("progress: pass what is to be iterated over, as in graph.progress(items)")
        with self:
            yield from self._items

    def fed(self, items: list[tuple[int, Message]], began: int, ended: int, code: int) -> None:
        """See Listener."""
        if code == codes.SUCCESS:
            with self._lock:
                self.fed_count += 1

    def fetched(self, indexes: list[int], envelope: Message | None, began: int, ended: int, code: int) -> None:
        """See Listener. A timeout is no result."""
        if code != codes.QUEUE_EMPTY:
            with self._lock:
                self.fetched_count += 1
                self.failed_count += code != codes.SUCCESS

    # ---- the line ----------------------------------------------------------------------------------------------------

    def rate(self) -> float:
        """Results in a second, over the last ten."""
        now = time.monotonic()
        past = self._past
        past.append((now, self.fetched_count))
        while len(past) > 2 and past[1][0] <= now - _WINDOW:
            past.popleft()
        span = now - past[0][0]
        return (self.fetched_count - past[0][1]) / span if span > 0 else 0.0

    def line(self) -> str:
        """Where it stands, in words."""
        speed = self.rate()
        parts = [f"fed {self.fed_count:,}, fetched {self.fetched_count:,}{self._of_total()}"]
        if self.failed_count:
            parts.append(f"{self.failed_count:,} failed")
        parts.append(rate(speed))
        parts.append(clock(time.monotonic() - self._began))
        if self.total and speed > 0 and self.fetched_count < self.total:
            parts.append(f"{clock((self.total - self.fetched_count) / speed)} left")
        return self._bar() + " · ".join(parts)

    def _of_total(self) -> str:
        return f" of {self.total:,}" if self.total else ""

    def _bar(self) -> str:
        if not self.total:
            return ""
        part = min(1.0, self.fetched_count / self.total)
        full = round(part * _BAR)
        return f"[{'█' * full}{'░' * (_BAR - full)}] {part:4.0%} "

    def _run(self) -> None:
        while not self._ending.wait(_PERIOD):
            self._write("\r\x1b[K" + self.line())

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(text)
        self._stream.flush()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if self._session is not None:
            probe.ignore(self._session, self)
        if self._thread is not None:
            self._thread.join()
            self._write("\r\x1b[K" + self.line() + "\n")


def _length(items: Any) -> int | None:
    return len(items) if hasattr(items, "__len__") else None
