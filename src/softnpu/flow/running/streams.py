"""Functions that take from their inputs themselves: a thread of their own, and queues that it may block on."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from softnpu.flow import codes, log
from softnpu.flow.errors import DfAbortException
from softnpu.flow.message import Message
from softnpu.flow.running import cells

if TYPE_CHECKING:
    from softnpu.flow.running.inputs import Batching, Task
    from softnpu.flow.running.runner import Runner

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0


def wait_while(changed: threading.Condition, busy: Callable[[], bool], until: float | None) -> None:
    """Sleep as long as something is so, at most until a time of the monotonic clock; `changed` is told when to look again."""
    with changed:
        while busy():
            rest = None if until is None else until - time.monotonic()
            if rest is not None and rest <= 0:
                return
            changed.wait(rest)


class StreamInput:
    """One input of a stream function: the channel puts in, the function takes out."""

    def __init__(self, runner: Runner, batch: Batching | None) -> None:
        self.maxsize = runner.node.depth
        self.batch = batch
        self._runner = runner
        self._messages: deque[Message] = deque()
        self._batches: deque[Message] = deque()  # made, and not taken yet
        self._some = threading.Condition()
        self._ended = False

    def arrive(self, message: Message) -> None:
        """A message came from a channel."""
        runner = self._runner
        words = runner.words
        words[cells.RECEIVED] = received = words[cells.RECEIVED] + 1
        if cells.measured(received):
            message.arrived = time.perf_counter_ns()
        with self._some:
            self._messages.append(message)
            if runner.node.overwrite and len(self._messages) > self.maxsize:
                runner.absorb(self._messages.popleft())
                runner.words[cells.DROPPED] += 1
            self._some.notify_all()

    def take(self, timeout: float | None) -> Message:
        """See Inlet. Results of earlier takes go out first, so that a slow reader slows this function down."""
        until = None if timeout is None else time.monotonic() + timeout
        self._runner.wait_for_room(until)
        while (message := self._batched(until) if self.batch else self._plain(until)) is None:
            pass
        if message.arrived:
            cells.waited(self._runner.words, time.perf_counter_ns() - message.arrived)
        self._runner.absorb(message)
        self._runner.host.progressed()
        return message

    def _plain(self, until: float | None) -> Message | None:
        with self._some:
            if not self._messages:
                self._wait(until)
            return self._messages.popleft() if self._messages else None

    def _batched(self, until: float | None) -> Message | None:
        """One step towards the next batch. The host is told without the lock: who delivers holds the host's own."""
        assert self.batch is not None
        with self._some:
            now = time.monotonic()
            self._batches += self.batch.tick(now)
            if self._batches:
                return self._batches.popleft()
            if not self._messages:
                self._wait(until)
                return None
            message = self._messages.popleft()
            self._batches += self.batch.push(message, now)
        self._runner.host.taken(message)
        self._runner.host.progressed()
        return None

    def _wait(self, until: float | None) -> None:
        """Until something comes, at most until a batch is due; queue.Empty when the time is up."""
        if self._ended:
            raise DfAbortException("The graph ends.", codes.FUNC_EXIT)
        now = time.monotonic()
        if until is not None and until <= now:
            raise queue.Empty
        times = [each - now for each in (until, self.deadline()) if each is not None]
        self._some.wait(max(0.0, min(times)) if times else None)

    def qsize(self) -> int:
        """Messages that wait."""
        return len(self._messages) + len(self._batches)

    backlog = qsize

    def end(self) -> None:
        """Nothing will come any more: free a blocked function."""
        with self._some:
            self._ended = True
            self._some.notify_all()

    def tick(self, now: float) -> None:
        """Time passed: a batch may be due."""
        if self.batch is not None:
            with self._some:
                self._batches += self.batch.tick(now)
                if self._batches:
                    self._some.notify_all()

    def deadline(self) -> float | None:
        """When a batch is due."""
        return None if self.batch is None else self.batch.deadline()


class StreamThread(threading.Thread):
    """Enters the function again and again, until the graph ends."""

    def __init__(self, runner: Runner, task: Task, inlets: list[StreamInput]) -> None:
        super().__init__(name=f"{runner.instance.node}.{task.function.name}", daemon=True)
        self._runner = runner
        self._task = task
        self._inlets = inlets
        self._ending = threading.Event()

    def run(self) -> None:
        """The life of the thread."""
        runner = self._runner
        pause = _FIRST_PAUSE
        while not self._ending.is_set() and not runner.stopped:
            runner.wait_for_room(None)
            if self._ending.is_set():
                return
            code = self._enter()
            if code == 0:
                pause = _FIRST_PAUSE
                continue
            runner.words[cells.FAILURES] += 1
            if runner.strict:
                runner.stopped = True
                runner.words[cells.STATE] = cells.STOPPED
                log.error(
                    "node %s stops: function %s returned %s", runner.instance.node, self._task.function.name, code
                )
                return
            runner.fail(self._task.function, None, code)
            runner.host.progressed()
            self._ending.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _enter(self) -> int:
        runner = self._runner
        words = runner.words
        code = 0
        began = time.perf_counter_ns()
        words[cells.FUNCTION] = self._task.index
        words[cells.BEGAN] = began
        words[cells.STATE] = cells.CALLING
        try:
            code = runner.body.stream(self._task.index, self._inlets, runner.stream_out)
        except DfAbortException:
            code = 0
        except (Exception, SystemExit):  # a function may end its call, not its node
            log.error("node %s: %s", runner.instance.node, traceback.format_exc())
            code = codes.FUNC_FAILED
        finally:
            ended = time.perf_counter_ns()
            cells.called(words, ended - began)
            if runner.watched:
                runner.host.called(runner.seat, self._task.index, 0, began, ended, code)
        return code

    def end(self) -> None:
        """Stop after the present entry, and free it if it waits for input."""
        self._ending.set()
        for inlet in self._inlets:
            inlet.end()
