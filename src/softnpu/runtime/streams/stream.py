"""Contexts and the streams in them: ordered work with ACL's rules about errors, callbacks and waiting."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from softnpu.base import callsite
from softnpu.base.errors import NpuError, codes
from softnpu.base.log import ERROR, WARNING, log, no_line
from softnpu.base.trace import Span, bus
from softnpu.runtime.streams.event import Event, Mark, Notify, Wait
from softnpu.runtime.streams.exception_info import ExceptionInfo
from softnpu.runtime.streams.reports import Report, Subscription

if TYPE_CHECKING:
    from softnpu.runtime.device import Device

STOP_ON_FAILURE = 1
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 0.5
_THREAD_CHECK_SECONDS = 1.0
_NOT_WORK = frozenset({"EVENT_RECORD", "EVENT_WAIT", "NOTIFY_WAIT", "VALUE_WAIT", "CALLBACK"})
_task_ids = itertools.count(1)
_last_task = threading.local()


def last_task_id() -> int:
    """Number of the last task that the calling thread sent to any stream (0 when none)."""
    return getattr(_last_task, "id", 0)


class StreamTask:
    """A piece of work of one stream. Running it never raises: failures are noted on the stream."""

    __slots__ = ("detail", "epoch", "id", "mark", "name", "stream", "thread", "work")

    def __init__(
        self, stream: Stream, work: Callable[[], object], name: str, mark: Mark | None, detail: dict[str, object] | None
    ) -> None:
        self.stream = stream
        self.work = work
        self.name = name
        self.id = _last_task.id = next(_task_ids) & 0xFFFFFFFF
        self.thread = threading.get_native_id()
        self.mark = mark
        self.detail = detail
        self.epoch = stream.epoch

    def __call__(self) -> None:
        stream = self.stream
        stream.task_epoch = self.epoch
        board, slot = stream.context.device.board_slot()
        counts = self.name not in _NOT_WORK
        start = time.monotonic_ns() if bus.listeners else 0
        if counts:
            board.task_started(slot)
        try:
            if not (stream.first_error and stream.failure_mode == STOP_ON_FAILURE):
                self.work()
        except NpuError as error:
            stream.fail(self, error)
        except Exception as error:  # a defect in a task must surface at synchronise, not kill the worker
            if callsite.from_outside(
                error
            ):  # a signal handler of the program, while the task ran in the caller's thread
                raise
            stream.fail(
                self, NpuError(codes.RT_INTERNAL_ERROR, f"task {self.name} failed: {type(error).__name__}: {error}")
            )
        finally:
            if counts:
                board.task_ended(slot)
            if self.mark is not None:
                self.mark.complete()
            if start and bus.listeners:
                end = time.monotonic_ns()
                span = Span(
                    "task",
                    self.name,
                    start,
                    end,
                    stream.context.device.index,
                    stream.id,
                    self.thread,
                    self.detail or {},
                )
                bus.publish(span)

    def failure(self, error: NpuError) -> ExceptionInfo:
        """What the exception callback is told when the task fails."""
        stream = self.stream
        return ExceptionInfo(error.code, self.id, stream.id, self.thread, stream.context.device.index)

    def cancel(self) -> None:
        """Dropped before it began: nobody may wait for it any longer."""
        if self.mark is not None:
            self.mark.complete()


class Stream:
    """An ordered queue of tasks in a context."""

    def __init__(self, context: Context, number: int, priority: int = 0, flag: int = 0) -> None:
        self.context = context
        self.id = number
        self.priority = priority
        self.flag = flag
        self.handle = 0
        self.is_default = False
        self.alive = True
        self.first_error: NpuError | None = None
        self.failure_mode = 0
        self.failure_mode_set = False
        self.overflow_switch = 0
        self.user_tag = 0
        self.limits: dict[int, int] = {}
        self.subscription: Subscription | None = None
        self.allocator: Any = None
        self._waiting_since = 0.0
        self.epoch = 0  # raised by every abort
        self.task_epoch = 0  # of the task that runs: it was sent before the abort when the two differ
        self.queue = context.device.backend.make_queue(f"softnpu-d{context.device.index}-s{number}")

    def submit(
        self,
        work: Callable[[], object],
        name: str,
        inline: bool = False,
        mark: Mark | None = None,
        detail: dict[str, object] | None = None,
    ) -> StreamTask:
        """Queue work; `inline` allows it to run at once in this thread when the stream is idle."""
        task = StreamTask(self, work, name, mark, detail)
        try:
            self.queue.submit(task, inline)
        except NpuError:
            task.cancel()
            raise
        return task

    def fail(self, task: StreamTask, error: NpuError) -> None:
        """Remember the first failure for synchronise, log it, and call the exception callback."""
        if self.first_error is None:
            self.first_error = error
        if self.failure_mode == STOP_ON_FAILURE:
            self.context.stop_all(error)
        log().write(
            ERROR,
            f"task {task.id} ({task.name}) of stream {self.id} failed: {error}",
            "RUNTIME",
            "run_task",
            no_line("stream.py"),
        )
        callback = self.context.device.owner.exception_callback
        if callback is not None:
            callback(task.failure(error))

    def take_error(self) -> None:
        """Raise and forget the first failure since the last synchronise."""
        error, self.first_error = self.first_error, None
        if error is not None:
            raise error

    def _inside(self) -> bool:
        """Whether the calling thread is inside a task or blocking callback of this stream."""
        subscription = self.subscription
        return self.queue.runs_here() or (subscription is not None and subscription.runs_here(self))

    def refuse_inside(self) -> None:
        """Raise when the calling thread is inside a task or blocking callback of this stream: waiting would never end."""
        if self._inside():
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"stream {self.id} cannot be waited for from inside one of its own tasks or callbacks",
                "synchronise or destroy it from the thread that submits the work",
            )

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait for all tasks sent so far; raises the first task error."""
        self.refuse_inside()
        if not self.queue.synchronize(timeout):
            raise NpuError(
                codes.RT_STREAM_SYNC_TIMEOUT,
                f"stream {self.id} was not done after {timeout:g} s",
                "wait longer, or look for a task that waits for an event or callback that never comes",
            )
        self.take_error()

    def record(self, event: Event) -> None:
        """Put a mark of the event behind all tasks sent so far."""
        mark = Mark()
        event.mark = mark
        self.submit(_nothing, "EVENT_RECORD", inline=True, mark=mark)

    def wait_event(self, event: Event, timeout: float | None) -> None:
        """Let the following tasks wait for the event's last recording."""
        mark = event.mark
        if mark is None or mark.done:
            return

        def work() -> None:
            if not self.poll(mark.wait, timeout):
                raise NpuError(
                    codes.RT_WAIT_TIMEOUT,
                    f"stream {self.id} waited more than {timeout} s for event {event.id}",
                    "raise the limit with acl.rt.set_op_wait_timeout, or find out why the event is late",
                )

        self.submit(work, "EVENT_WAIT", mark=Wait(event))

    def wait_notify(self, notify: Notify, timeout: float | None) -> None:
        """Let the following tasks wait for the notify, and clear it."""

        def work() -> None:
            if not self.poll(notify.take, timeout):
                raise NpuError(
                    codes.RT_WAIT_TIMEOUT,
                    f"stream {self.id} waited more than {timeout} s for notify {notify.id}",
                    "record the notify on another stream, or raise the timeout",
                )

        self.submit(work, "NOTIFY_WAIT")

    def poll(self, ready: Callable[[float], bool], timeout: float | None) -> bool:
        """Call `ready(seconds)` until it is true, the time is over (False) or the stream is aborted (raises)."""
        self._waiting_since = time.monotonic()
        try:
            return self._poll(ready, timeout)
        finally:
            self._waiting_since = 0.0

    def _poll(self, ready: Callable[[float], bool], timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if ready(max(0.0, left)):
                return True
            if self.epoch != self.task_epoch or sys.is_finalizing():
                raise NpuError(codes.RT_STREAM_ABORT, f"stream {self.id} was aborted while it waited")
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def callback(self, function: Callable[[Any], object], data: Any, block: bool) -> None:
        """Queue a callback for the thread that is subscribed to this stream."""
        subscription = self.subscription
        if subscription is None:
            raise NpuError(
                codes.RT_STREAM_NO_CB_REG,
                f"no thread is subscribed to stream {self.id}",
                "call acl.rt.subscribe_report(thread_id, stream) first",
            )
        report = Report(function, data, self, block)
        self.submit(lambda: self._deliver(subscription, report), "CALLBACK", inline=not block)

    def _deliver(self, subscription: Subscription, report: Report) -> None:
        subscription.put(report)
        try:
            while report.block and not self.poll(report.mark.wait, _THREAD_CHECK_SECONDS):
                if subscription.over():
                    raise NpuError(
                        codes.RT_REPORT_TIMEOUT,
                        f"thread {subscription.thread_id} has ended; its callback on stream {self.id} cannot run",
                        "keep the thread that calls process_report alive until the stream is synchronised",
                    )
        except NpuError:
            subscription.withdraw(report)
            raise
        if report.dropped:
            log().write(
                WARNING,
                f"a callback of stream {self.id} was dropped, its thread was unsubscribed",
                "RUNTIME",
                "launch_callback",
            )

    def settle(self) -> None:
        """Let queued work end; a stream that does nothing but wait for something gets a moment and is given up."""
        if self._inside():
            return
        while not self.queue.synchronize(_POLL_SECONDS):
            since = self._waiting_since
            if since and time.monotonic() - since > _SETTLE_SECONDS:
                return

    def abort(self) -> int:
        """Drop what has not begun and end waits; returns how many tasks were dropped."""
        self.epoch += 1
        dropped = self.queue.drop()
        for task in dropped:
            if isinstance(task, StreamTask):
                task.cancel()
        return len(dropped)

    def close(self, wait: bool) -> None:
        """End the stream: wait for its tasks, or drop them."""
        if not wait:
            dropped = self.abort()
            if dropped:
                log().write(
                    WARNING, f"stream {self.id} ends with {dropped} tasks that never ran", "RUNTIME", "destroy_stream"
                )
        else:
            self.queue.synchronize()
        self.alive = False
        if self.subscription is not None:
            self.subscription.leave(self)
        self.queue.close()


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
            if stream.failure_mode == STOP_ON_FAILURE and stream.first_error is None:
                stream.first_error = error


def no_context(why: str) -> NpuError:
    """The error of a thread that has no usable current context."""
    return NpuError(
        codes.RT_CONTEXT_NULL,
        f"thread {threading.get_ident()} {why}",
        "call acl.rt.set_device or acl.rt.set_context in this thread first; new threads begin without one",
    )


def _nothing() -> None:
    """The work of a task that only marks a place."""
