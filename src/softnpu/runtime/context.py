"""Contexts: the container in which streams and events live, and which a thread makes current."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from softnpu.base.errors import NpuError, codes
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
        self._lock = device.lock  # held while something is added, so that nothing is added to an ended context
        self._default_stream: Stream | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the context from ending while something is added to it; raises when it has ended."""
        with self._lock:
            if not self.alive:
                raise no_context("has a current context that was destroyed")
            yield

    def close(self) -> None:
        """The context ends: nothing more can be added."""
        with self._lock:
            self.alive = False

    @property
    def default_stream(self) -> Stream:
        """The stream that the number 0 stands for."""
        stream = self._default_stream
        if stream is None:
            with self.open():
                if self._default_stream is None:
                    self._default_stream = self.make_stream()
                    self._default_stream.is_default = True
                stream = self._default_stream
        return stream

    def make_stream(self, priority: int = 0, flag: int = 0) -> Stream:
        """A new stream of this context."""
        with self.open():
            number = self.device.take_stream_id()
            stream = Stream(self, number, priority, flag)
            self.streams.add(stream)
        return stream

    def drop_stream(self, stream: Stream, wait: bool) -> None:
        """End a stream and give its number back."""
        stream.close(wait)
        try:
            self.streams.remove(stream)
        except KeyError:  # another thread was quicker
            return
        self.device.drop_stream_id(stream.id)

    def stop_all(self, error: NpuError) -> None:
        """A stream in stop mode failed: all streams of the context that are in that mode stop."""
        for stream in tuple(self.streams):
            if stream.failure_mode == STOP_ON_FAILURE and stream.failed is None:
                stream.failed = error


def no_context(why: str) -> NpuError:
    """The error of a thread that has no usable current context."""
    return NpuError(
        codes.RT_CONTEXT_NULL,
        f"thread {threading.get_ident()} {why}",
        "call acl.rt.set_device or acl.rt.set_context in this thread first; new threads begin without one",
    )
