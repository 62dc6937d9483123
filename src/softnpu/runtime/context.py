"""Contexts: the container in which streams and events live, and which a thread makes current."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from softnpu.base.errors import NpuError
from softnpu.runtime.stream import STOP_ON_FAILURE, Stream

if TYPE_CHECKING:
    from softnpu.runtime.device import Device
    from softnpu.runtime.event import Event, Notify


class Context:
    """A context of a device, with its own default stream (made when first used)."""

    def __init__(self, device: Device, default: bool) -> None:
        self.device = device
        self.default = default
        self.alive = True
        self.handle = 0
        self.streams: set[Stream] = set()
        self.events: set[Event] = set()
        self.notifies: set[Notify] = set()
        self.options: dict[int, int] = {}
        self._lock = threading.RLock()
        self._default_stream: Stream | None = None

    @property
    def default_stream(self) -> Stream:
        """The stream that the number 0 stands for."""
        stream = self._default_stream
        if stream is None:
            with self._lock:
                if self._default_stream is None:
                    self._default_stream = self.make_stream()
                    self._default_stream.is_default = True
                stream = self._default_stream
        return stream

    def make_stream(self, priority: int = 0, flag: int = 0) -> Stream:
        """A new stream of this context."""
        number = self.device.take_stream_id()
        stream = Stream(self, number, priority, flag)
        self.streams.add(stream)
        return stream

    def drop_stream(self, stream: Stream, wait: bool) -> None:
        """End a stream and give its number back."""
        stream.close(wait)
        if stream in self.streams:
            self.streams.discard(stream)
            self.device.drop_stream_id(stream.id)

    def stop_all(self, error: NpuError) -> None:
        """A stream in stop mode failed: all streams of the context that are in that mode stop."""
        for stream in tuple(self.streams):
            if stream.failure_mode == STOP_ON_FAILURE and stream.failed is None:
                stream.failed = error

    def synchronize(self) -> None:
        """Wait for all streams of this context."""
        for stream in tuple(self.streams):
            stream.synchronize()
