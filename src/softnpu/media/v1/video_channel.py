"""What the video channels of `acl.media` share: a stream of their own, and results that a thread of the program takes.

Work runs on the stream's queue, one channel beside the other; what a decoder has made is written to the program's memory on a
second queue, while the decoder goes on. Results go to the thread that the program named, in order, and
run there inside `acl.rt.process_report`. Whoever waits here looks now and then whether that thread still takes them: a program
that has ended it gets an answer and a line in the log, and does not hang.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import ERROR, WARNING, log
from softnpu.runtime.process import process
from softnpu.runtime.streams.event import Mark
from softnpu.runtime.streams.reports import Report

IDLE_SECONDS = 30.0  # how long a thread may take no callback while some wait for it
BUSY_SECONDS = 300.0  # and how long a single callback or picture may take
_LOOK_SECONDS = 0.05
_END_SECONDS = 10.0  # far more than one picture takes


class _Sent(Mark):
    """A piece of work on the stream: over when its task is, be it done, skipped or dropped."""

    __slots__ = ("_channel", "_dropped", "accepted", "begun")

    def __init__(self, channel: VideoChannel, dropped: Callable[[], None] | None) -> None:
        super().__init__()
        self._channel = channel
        self._dropped = dropped
        self.accepted = False
        self.begun = False

    def complete(self) -> None:
        if self.done:
            return
        super().complete()
        if self._dropped is not None and self.accepted and not self.begun:
            self._dropped()
        self._channel.note(queued=-1)


class _Delivery(Report):
    """A callback of the program on its way to its thread."""

    __slots__ = ("_channel",)

    def __init__(self, channel: VideoChannel, call: Callable[[], None]) -> None:
        super().__init__(lambda _: call(), None, channel.stream, block=False)
        self._channel = channel

    def run(self) -> None:
        self._channel.note(running=+1)
        try:
            super().run()
        finally:
            self._channel.note(running=-1, undelivered=-1)

    def cancel(self) -> None:
        super().cancel()
        self._channel.note(undelivered=-1, lost=+1)


class VideoChannel:
    """A stream in the current context whose results go to one thread; `room` pieces of work may be under way."""

    engine = ""

    def __init__(self, number: int, thread_id: int, room: int) -> None:
        owner = process()
        context = owner.current()
        self.number = number
        self.device = context.device
        self.stream = context.make_stream()
        self._second = context.device.backend.make_queue(f"softnpu-{self.engine.lower()}-{number}")
        self._room = room
        self._change = threading.Condition()
        self._wanted: list[Callable[[], bool]] = []  # what threads wait for
        self._queued = 0  # sent, and not worked on yet
        self._undelivered = 0  # callbacks that have not returned
        self._running = 0  # callbacks inside the program
        self._lost = 0  # callbacks that never ran
        self._steps = 0  # grows with everything that happens
        self.closing = False
        try:
            owner.reports.subscribe(thread_id, self.stream)
            if self._thread_is_over():
                raise NpuError(
                    codes.INVALID_PARAM,
                    f"{thread_id} is no running thread",
                    "start the thread that calls acl.rt.process_report with acl.util.start_thread, and set its id before",
                )
        except NpuError:
            owner.registry.end_stream(self.stream, wait=False)
            raise

    def flush(self) -> None:
        """Let everything come out that is still inside; runs on the stream."""
        raise NotImplementedError("a video channel needs flush")

    def release(self) -> None:
        """Give back what the codec holds."""
        raise NotImplementedError("a video channel needs release")

    # ---- books ------------------------------------------------------------------------------------------------------

    def note(self, queued: int = 0, undelivered: int = 0, running: int = 0, lost: int = 0) -> None:
        """Something began or ended: tell those who wait."""
        with self._change:
            self._queued += queued
            self._undelivered += undelivered
            self._running += running
            self._lost += lost
            self._steps += 1
            if any(done() for done in self._wanted):  # waking threads for nothing costs the codec its turns
                self._change.notify_all()

    @property
    def alive(self) -> bool:
        """Whether the context of the channel still exists."""
        return self.stream.alive

    def _thread_is_over(self) -> bool:
        subscription = self.stream.subscription
        return subscription is None or subscription.over()

    def _is_own_thread(self) -> bool:
        subscription = self.stream.subscription
        return subscription is not None and subscription.thread_id == threading.get_ident()

    # ---- work -------------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise unless the channel works."""
        if not self.alive or self.closing:
            why = "is being destroyed" if self.closing else "ended with its context"
            raise NpuError(codes.INVALID_PARAM, f"the {self.engine} channel {why}", "create it again")

    def check_thread(self) -> None:
        """Raise unless results of something sent now can reach the program."""
        if self._thread_is_over():
            raise NpuError(
                codes.RT_STREAM_NO_CB_REG,
                f"the thread that runs the callbacks of the {self.engine} channel has ended",
                "keep it in acl.rt.process_report until the channel is destroyed",
            )

    def submit(self, work: Callable[[], None], name: str, dropped: Callable[[], None]) -> None:
        """Queue work, after waiting for room; `dropped` is called instead when the stream is aborted before."""
        self.stream.refuse_inside()
        own = self._is_own_thread()  # then no callback can return while this call waits
        why = self._wait(lambda: self._queued + (0 if own else self._undelivered) < self._room)
        if why:
            raise NpuError(
                codes.RT_REPORT_TIMEOUT,
                f"the {self.engine} channel has {self._room} pictures under way and takes no more: {why}",
                "let the callback thread call acl.rt.process_report in a loop",
            )
        self.check_open()  # another thread may have destroyed it meanwhile
        self.put(work, name, dropped)

    def put(self, work: Callable[[], None], name: str, dropped: Callable[[], None] | None = None) -> None:
        """Queue work without waiting."""
        mark = _Sent(self, dropped)

        def run() -> None:
            mark.begun = True
            work()

        self.note(queued=+1)
        self.stream.submit(run, name, mark=mark)
        mark.accepted = True

    def later(self, work: Callable[[], None]) -> None:
        """Do what follows the codec's part beside its next piece of work, in order.

        One piece at a time: pictures that pile up would make the codec take new memory for each, which is slower than waiting.
        """

        def run() -> None:
            try:
                work()
            finally:
                self.note(queued=-1)

        self.note(queued=+1)
        try:
            self._second.synchronize(
                BUSY_SECONDS
            )  # with a limit: without one the waiting thread would do the work itself
            self._second.submit(run)
        except NpuError:  # no thread to be had
            run()

    def deliver(self, call: Callable[[], None]) -> None:
        """Let the program's thread call something."""
        report = _Delivery(self, call)
        self.note(undelivered=+1)
        subscription = self.stream.subscription
        if subscription is None:
            report.cancel()
        else:
            subscription.put(report)

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Wait until everything sent is worked on and its callbacks have returned; a thread does not wait for itself."""
        self.stream.refuse_inside()
        own = self._is_own_thread()
        why = self._wait(lambda: not self._queued and (own or not self._undelivered))
        if why:
            self.complain(f"goes on with {self._undelivered} callbacks that have not returned: {why}", WARNING)

    def complain(self, what: str | Exception, level: int = ERROR) -> None:
        """A line in the log; a defect of ours with its traceback."""
        if isinstance(what, Exception) and not isinstance(what, NpuError):
            what = "internal error: " + "".join(traceback.format_exception(what))
        log().write(level, f"{self.engine} channel {self.number}: {what}", "DVPP", self.engine.lower())

    def _wait(self, done: Callable[[], bool]) -> str:
        """Wait for `done()`; the answer says why that does not come, or nothing."""
        with self._change:
            if done():
                return ""
            self._wanted.append(done)
            try:
                seen, since = self._steps, time.monotonic()
                while not done():
                    self._change.wait(_LOOK_SECONDS)
                    if self._steps != seen:
                        seen, since = self._steps, time.monotonic()
                    elif why := self._stuck(time.monotonic() - since):
                        return why
            finally:
                self._wanted.remove(done)
        return ""

    def _stuck(self, seconds: float) -> str:
        if not self.alive:
            return "its context has ended"
        if sys.is_finalizing():
            return "the interpreter ends"
        if self._queued:
            self.stream.queue.synchronize(0.0)  # sees to it that a worker is there
            self._second.synchronize(0.0)
        elif not self._running and self._thread_is_over():
            return "the callback thread has ended"
        limit = BUSY_SECONDS if self._queued or self._running else IDLE_SECONDS
        return f"nothing has happened for {limit:g} s" if seconds > limit else ""

    # ---- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush behind all work, wait for the callbacks, and end the stream."""
        self.closing = True
        try:
            if self.alive:
                self.put(self.flush, f"{self.engine}_CLOSE")
                if self._is_own_thread():
                    self._run_callbacks_here()
                else:
                    self.drain()
        finally:  # an interruption of the wait, too, ends the channel
            process().registry.end_stream(self.stream, wait=False)
        self._second.close()
        if not self.stream.queue.busy():  # else a codec is at work that does not end: it keeps what it has
            self.release()
        if self._lost:
            self.complain(f"{self._lost} callbacks never ran; what they would have freed stays", WARNING)

    def abandon(self) -> None:
        """Its context has ended, or the interpreter does: what has begun comes to its end, nothing more begins."""
        self.stream.abort()
        queues = (self.stream.queue, self._second)
        for queue in queues:
            if not queue.runs_here():  # a destructor may come here from inside a task
                queue.synchronize(_END_SECONDS)
            queue.close()
        if not any(queue.busy() for queue in queues):
            self.release()

    def _run_callbacks_here(self) -> None:
        """The calling thread is the one that runs the callbacks, perhaps inside one: the others run now."""
        subscription = self.stream.subscription
        seen, since = self._steps, time.monotonic()
        while subscription is not None and (self._queued or self._undelivered > self._running):
            try:
                subscription.process(_LOOK_SECONDS)
            except NpuError as error:  # nothing to do in this moment, or never again
                if self._steps != seen:
                    seen, since = self._steps, time.monotonic()
                if error.code != codes.RT_REPORT_TIMEOUT or self._stuck(time.monotonic() - since):
                    return
