"""The producing side of taps: copies of what passes an output go to the application, as many as it has room for."""

from __future__ import annotations

from collections import deque
from typing import Any

from softnpu.flow.message import Message
from softnpu.flow.transport.layout import APPLICATION
from softnpu.flow.values import codec

ON, MORE, OFF = "on", "more", "off"


class _Tap:
    """One output of one node instance. What the application has no room for waits here, the newest few of it."""

    def __init__(self, number: int, last: int) -> None:
        self.number = number
        self.allowed = last
        self.waiting: deque[Message] = deque(maxlen=last)


class Tapping:
    """Stands before the `emit` of a worker while there are taps."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._emit = type(worker).emit
        self._taps: dict[tuple[int, int], _Tap] = {}

    def on(self, number: int, seat: int, output: int, last: int) -> None:
        """Begin with one output."""
        self._taps[seat, output] = _Tap(number, last)
        self._worker.emit = self.emit

    def off(self, number: int) -> None:
        """End with it; after the last one the worker is as before."""
        self._taps = {output: tap for output, tap in self._taps.items() if tap.number != number}
        if not self._taps and "emit" in self._worker.__dict__:
            del self._worker.emit

    def more(self, number: int, count: int) -> None:
        """The application has taken some."""
        for tap in self._taps.values():
            if tap.number == number:
                tap.allowed += count
                self._send(tap)

    def emit(self, seat: int, output: int, message: Message) -> None:
        """See Host. The copy is made first: afterwards the memory may belong to somebody else."""
        tap = self._taps.get((seat, output))
        if tap is not None:
            with self._worker.endpoint.lock:
                tap.waiting.append(codec.private(message))
                self._send(tap)
        self._emit(self._worker, seat, output, message)

    def _send(self, tap: _Tap) -> None:
        outbox = self._worker.endpoint.outbox
        while tap.allowed and tap.waiting:
            tap.allowed -= 1
            message = codec.localize(tap.waiting.popleft())
            outbox.tell(APPLICATION, outbox.copy_record(message, APPLICATION, tap.number))


def arm(worker: Any, action: str, *rest: Any) -> None:
    """What the application asked for."""
    tapping = worker.__dict__.get("tapping")
    if tapping is None:
        tapping = worker.tapping = Tapping(worker)
    {ON: tapping.on, MORE: tapping.more, OFF: tapping.off}[action](*rest)
