"""Hears what the application feeds and fetches. The session's methods are wrapped only while somebody listens."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol

from softnpu.flow.message import Message
from softnpu.flow.values.codec import private

_clock = time.perf_counter_ns
_lock = threading.Lock()


class Listener(Protocol):
    """Who wants to know. Called by the thread that feeds or fetches, after it did."""

    payloads: bool  # wants what was fed, not only its envelope

    def fed(self, items: list[tuple[int, Message]], began: int, ended: int, code: int) -> None:
        """Messages went in, if the code is 0."""

    def fetched(self, indexes: list[int], envelope: Message | None, began: int, ended: int, code: int) -> None:
        """Results came out, if the code is 0."""


@dataclass
class Probe:
    """The wrapped methods of one session, and who listens."""

    session: Any
    feed_many: Any
    fetch: Any
    listeners: tuple[Listener, ...] = ()
    payloads: bool = False

    def feeding(self, items: list[tuple[int, Message]], timeout: float | None) -> int:
        """In the place of `feed_many`. Listeners get copies: what is fed belongs to the engine."""
        began = _clock()
        kept = [(index, private(message) if self.payloads else message.copy()) for index, message in items]
        code: int = self.feed_many(items, timeout)
        for (_, copy), (_, message) in zip(kept, items, strict=True):
            copy.trans_id = message.trans_id
        ended = _clock()
        for listener in self.listeners:
            listener.fed(kept, began, ended, code)
        return code

    def fetching(self, indexes: list[int], timeout: float | None, align: bool, taken: Any = None) -> Any:
        """In the place of `fetch`."""
        began = _clock()
        fetched = self.fetch(indexes, timeout, align, taken)
        ended = _clock()
        for listener in self.listeners:
            listener.fetched(indexes, fetched[1], began, ended, fetched[2])
        return fetched


def listen(session: Any, listener: Listener) -> None:
    """From now on a listener hears of every feed and fetch."""
    with _lock:
        probe: Probe | None = session.__dict__.get("_probe")
        if probe is None:
            probe = session._probe = Probe(session, session.feed_many, session.fetch)
        probe.listeners = (*probe.listeners, listener)
        probe.payloads |= listener.payloads
        session.feed_many, session.fetch = probe.feeding, probe.fetching


def ignore(session: Any, listener: Listener) -> None:
    """It hears no more; after the last one the session is as before."""
    with _lock:
        probe: Probe | None = session.__dict__.get("_probe")
        if probe is None:
            return
        probe.listeners = tuple(each for each in probe.listeners if each is not listener)
        probe.payloads = any(each.payloads for each in probe.listeners)
        if not probe.listeners:
            del session._probe, session.feed_many, session.fetch
