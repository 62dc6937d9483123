"""The trace bus: what happens below is published here, and `observe/`, the demo and tests may listen.

Publishers guard every publish with `if bus.listeners:`, so nothing is built or called when nobody listens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from softnpu.base.log import ERROR, log, no_line


class Span(NamedTuple):
    """Something that took time: a task on a stream, an API call, a wait. Times are `time.monotonic_ns`."""

    kind: str
    name: str
    start: int
    end: int
    device: int
    stream: int
    thread: int
    detail: dict[str, object]


Listener = Callable[[Span], None]


class Bus:
    """Listeners are kept in a tuple that is replaced as a whole, so that publishing needs no lock."""

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self._lock = threading.RLock()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Start calling `listener` with every span; returns the function that ends it."""
        with self._lock:
            self.listeners += (listener,)

        def unsubscribe() -> None:
            with self._lock:
                self.listeners = tuple(known for known in self.listeners if known is not listener)

        return unsubscribe

    def publish(self, span: Span) -> None:
        """Hand a span to all listeners; one that raises is logged, what is watched must not fail for it."""
        for listener in self.listeners:
            try:
                listener(span)
            except Exception as error:
                log().write(
                    ERROR, f"trace listener {listener!r} raised {error!r}", "PROFILING", "publish", no_line("trace.py")
                )


bus = Bus()
