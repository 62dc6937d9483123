"""Callbacks of streams and the threads that run them (`subscribe_report`, `process_report`)."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import ERROR, log
from softnpu.runtime.streams.event import Mark
from softnpu.runtime.threads import UserThread

if TYPE_CHECKING:
    from typing import Protocol

    class Source(Protocol):
        """A stream, as far as its callbacks concern it."""

        id: int
        subscription: Subscription | None


MAX_THREADS = 1024

_UNSUBSCRIBED_SECONDS = 0.001


class Report:
    """One callback on its way to a thread. Keeps the user's object alive until the callback ran."""

    __slots__ = ("block", "data", "dropped", "function", "mark", "stream")

    def __init__(self, function: Callable[[Any], object], data: Any, stream: Source, block: bool) -> None:
        self.function = function
        self.data = data
        self.stream = stream
        self.block = block
        self.mark = Mark()
        self.dropped = False

    def run(self) -> None:
        """Call the function; an exception is logged, as the manual says, and goes no further."""
        try:
            self.function(self.data)
        except (Exception, SystemExit) as error:
            log().write(
                ERROR,
                f"a callback of stream {self.stream.id} raised {type(error).__name__}: {error}",
                "ASCENDCL",
                "process_report",
            )
        finally:
            self.mark.complete()

    def cancel(self) -> None:
        """The callback will not run."""
        self.dropped = True
        self.mark.complete()


class Subscription:
    """A thread and the streams whose callbacks it runs."""

    def __init__(self, book: ReportBook, thread_id: int) -> None:
        self.book = book
        self.thread_id = thread_id
        self.thread = _thread_of(thread_id)
        self.streams: set[Source] = set()
        self._reports: deque[Report] = deque()
        self._arrived = threading.Condition()
        self._running: list[Report] = []  # several when a callback processes further callbacks

    def over(self) -> bool:
        """Whether the thread has ended. Its id may belong to another thread by now, so the thread itself is asked."""
        thread = self.thread
        if thread is None:
            return self.thread_id not in sys._current_frames()
        return not thread.is_alive() or (isinstance(thread, UserThread) and thread.over.is_set())

    def put(self, report: Report) -> None:
        """Hand a callback to the thread; one of a stream that has left meanwhile is dropped."""
        with self._arrived:
            if report.stream in self.streams:
                self._reports.append(report)
                self._arrived.notify()
                return
        report.cancel()

    def withdraw(self, report: Report) -> None:
        """Take a callback back unless it has begun."""
        with self._arrived:
            if report not in self._reports:
                return
            self._reports.remove(report)
        report.cancel()

    def process(self, timeout: float | None) -> None:
        """Wait for one callback and run it in the calling thread."""
        with self._arrived:
            if (
                not self._arrived.wait_for(lambda: bool(self._reports) or not self.streams, timeout)
                or not self._reports
            ):
                if self.streams:
                    raise NpuError(
                        codes.RT_REPORT_TIMEOUT,
                        f"no callback arrived in {timeout:g} s" if timeout is not None else "no callback arrived",
                        "call process_report again in a loop; this is normal while the streams are idle",
                    )
                raise not_subscribed(self.thread_id)
            report = self._reports.popleft()
            self._running.append(report)
        try:
            report.run()
        finally:
            self._running.remove(report)

    def runs_here(self, stream: Source) -> bool:
        """Whether the calling thread is inside a blocking callback of the stream."""
        here = threading.get_ident() == self.thread_id
        return here and any(report.block and report.stream is stream for report in tuple(self._running))

    def leave(self, stream: Source) -> None:
        """The stream needs this thread no longer; callbacks that did not run are dropped."""
        with self._arrived:
            self.streams.discard(stream)
            stream.subscription = None
            kept = deque(report for report in self._reports if report.stream is not stream)
            dropped = [report for report in self._reports if report.stream is stream]
            self._reports = kept
            self._arrived.notify_all()
        for report in dropped:
            report.cancel()
        if not self.streams:
            self.book.forget(self)


class ReportBook:
    """Subscriptions of the process by thread id."""

    def __init__(self) -> None:
        self._by_thread: dict[int, Subscription] = {}
        self._lock = threading.RLock()

    def subscribe(self, thread_id: int, stream: Source) -> None:
        """Bind a thread to the callbacks of a stream."""
        with self._lock:
            if stream.subscription is not None:
                raise NpuError(
                    codes.RT_STREAM_SUBSCRIBE,
                    f"stream {stream.id} is subscribed already, by thread {stream.subscription.thread_id}",
                    "a stream has one callback thread; unsubscribe_report first",
                )
            subscription = self._by_thread.get(thread_id)
            if subscription is None:
                if len(self._by_thread) >= MAX_THREADS:
                    raise NpuError(
                        codes.RT_OVER_LIMIT,
                        f"{MAX_THREADS} threads are subscribed for callbacks already",
                        "let one thread serve several streams",
                    )
                subscription = self._by_thread[thread_id] = Subscription(self, thread_id)
            elif subscription.over():
                subscription.thread = _thread_of(thread_id)
            subscription.streams.add(stream)
            stream.subscription = subscription

    def unsubscribe(self, thread_id: int, stream: Source) -> None:
        """Undo `subscribe`."""
        with self._lock:
            subscription = stream.subscription
            if subscription is None or subscription.thread_id != thread_id:
                raise NpuError(
                    codes.RT_THREAD_SUBSCRIBE,
                    f"thread {thread_id} is not subscribed to stream {stream.id}",
                    "pass the thread id that subscribe_report was called with",
                )
        subscription.leave(stream)

    def process(self, timeout: float | None) -> None:
        """`process_report` for the calling thread."""
        subscription = self._by_thread.get(threading.get_ident())
        if subscription is None:
            time.sleep(_UNSUBSCRIBED_SECONDS)  # the guide's threads ask in a loop before they are subscribed
            raise not_subscribed(threading.get_ident())
        subscription.process(timeout)

    def forget(self, subscription: Subscription) -> None:
        """A subscription without streams ends."""
        with self._lock:
            if not subscription.streams and self._by_thread.get(subscription.thread_id) is subscription:
                del self._by_thread[subscription.thread_id]


def _thread_of(thread_id: int) -> threading.Thread | None:
    return next((thread for thread in threading.enumerate() if thread.ident == thread_id), None)


def not_subscribed(thread_id: int) -> NpuError:
    """The error of a thread that waits for callbacks of no stream."""
    return NpuError(
        codes.RT_THREAD_SUBSCRIBE,
        f"thread {thread_id} is subscribed to no stream",
        "call acl.rt.subscribe_report(thread_id, stream); until then this answer is normal",
    )
