"""A channel of picture processing: tasks run in order in its own worker, each result waits until it is fetched."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from softnpu.base.errors import NpuError
from softnpu.media.pixels import csc
from softnpu.media.pixels.picture import MAX_SIDE
from softnpu.media.v2.errors import failure, himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.sys.ready import Ready
from softnpu.runtime.device import Device
from softnpu.runtime.streams.queue import Queue

MOST_WAITING = 1024
MOST_RESULTS = 4096
_CLOSE_MS = 10_000
_SLICE = 1.0  # a worker that could not be started is tried again after this long


class Task:
    """A started call, until its result is fetched."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: NpuError | None = None


class Runner:
    """An ordered worker with results by number. Threads may share it."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self._queue = Queue(name)
        self._change = threading.Condition()
        self._tasks: dict[int, Task] = {}
        self._waiting = 0
        self._closed = False
        self._numbers = itertools.cycle(range(1, 1 << 32))

    def submit(self, work: Callable[[], object], timeout_ms: int, inline: bool) -> int:
        """Queue a task; its number. A full queue is waited for as long as the program allows."""
        self.check_time(timeout_ms)
        task = Task()
        with self._change:
            self._wait_for_room(timeout_ms)
            number = next(self._numbers)
            self._waiting += 1
            self._tasks[number] = task
            self._forget_oldest()
        try:
            self._queue.submit(lambda: self._run(work, task), inline)
        except NpuError:
            self._finish(task, None)
            self._tasks.pop(number, None)
            raise
        return number

    def _wait_for_room(self, timeout_ms: int) -> None:
        if not self._closed and self._waiting >= MOST_WAITING and timeout_ms == 0:
            raise himpi_error(
                self.module, "BUF_FULL", f"{MOST_WAITING} tasks are waiting", "fetch results, or pass a time to wait"
            )
        has_room = self._wait(lambda: self._closed or self._waiting < MOST_WAITING, timeout_ms)
        if self._closed:
            raise himpi_error(self.module, "UNEXIST", "the channel was destroyed meanwhile", "create it again")
        if not has_room:
            raise himpi_error(
                self.module,
                "TIMEOUT",
                f"{MOST_WAITING} tasks were waiting for all of {timeout_ms} ms",
                "wait longer, or start fewer tasks at once",
            )

    def _forget_oldest(self) -> None:
        if len(self._tasks) > MOST_RESULTS:
            oldest = next(number for number, task in self._tasks.items() if task.done)
            del self._tasks[oldest]

    def _run(self, work: Callable[[], object], task: Task) -> None:
        error: NpuError | None = None
        try:
            work()
        except Exception as raised:
            error = failure(self.module, raised)
        except BaseException:
            error = himpi_error(self.module, "SYS_ERROR", "the task was interrupted")
            raise
        finally:
            self._finish(task, error)

    def _finish(self, task: Task, error: NpuError | None) -> None:
        with self._change:
            task.error = error
            task.done = True
            self._waiting -= 1
            self._change.notify_all()

    def result(self, number: int, timeout_ms: int) -> None:
        """Wait for a task; raises what it failed with."""
        self.check_time(timeout_ms)
        with self._change:
            task = self._tasks.get(number)
            if task is None:
                raise himpi_error(
                    self.module,
                    "ILLEGAL_PARAM",
                    f"no task has the id {number}, or its result was fetched",
                    "use the task_id that the call returned, once, with its own channel",
                )
            if not task.done and (timeout_ms == 0 or not self._wait(lambda: task.done, timeout_ms)):
                raise himpi_error(
                    self.module,
                    "TIMEOUT" if timeout_ms > 0 else "BUF_EMPTY",
                    f"task {number} is not done" + (f" after {timeout_ms} ms" if timeout_ms > 0 else ""),
                    "call again, or wait longer",
                )
            self._tasks.pop(number, None)
        if task.error is not None:
            raise task.error

    def check_time(self, timeout_ms: int) -> None:
        """Raise unless it is a time limit."""
        if timeout_ms < -1:
            raise himpi_error(
                self.module,
                "ILLEGAL_PARAM",
                f"the time limit is {timeout_ms} ms",
                "-1 waits for ever, 0 does not wait, else milliseconds",
            )

    def _wait(self, ready: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait with the lock held until `ready`; -1 waits for ever."""
        deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
        while not ready():
            left = _SLICE if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            if not self._change.wait(min(left, _SLICE)) and not ready():
                self._queue.synchronize(0)  # starts the worker again if it could not be started
        return True

    def close(self) -> None:
        """Let tasks end; those that take too long are given up."""
        with self._change:
            self._closed = True
            self._change.notify_all()
            # A destructor may come here from inside a task. Tasks that are about to be queued are counted already.
            ended = self._queue.runs_here() or self._wait(lambda: not self._waiting, _CLOSE_MS)
        if not ended:
            self._queue.drop()
            self._queue.synchronize(_CLOSE_MS / 1000)
        with self._change:
            for task in self._tasks.values():
                if not task.done:
                    task.error = himpi_error(self.module, "SYS_ERROR", "the channel was destroyed before the task ran")
                    task.done = True
            self._change.notify_all()
        self._queue.close()


class VpcChannel(Runner):
    """A VPC channel with its colour matrix."""

    def __init__(self, number: int, device: Device) -> None:
        super().__init__("vpc", f"vpc channel {number}")
        self.number = number
        self.device = device
        self.ready: Ready | None = None
        self.csc = csc.matrix(csc.DEFAULT)
        self._has_workspace = False

    def set_workspace(self, wanted: list[Fields]) -> None:
        """`vpc_set_chn_workspace`, once for a channel. Nothing needs the memory here; the sizes are checked."""
        if self._has_workspace:
            raise himpi_error("vpc", "NOT_PERM", "the channel has its workspace already", "set it once per channel")
        sides = [(use.max_source_pic_width, use.max_source_pic_height) for use in wanted]
        sides += [(use.max_dest_pic_width, use.max_dest_pic_height) for use in wanted]
        if not sides or min(map(min, sides)) < 1 or max(map(max, sides)) > MAX_SIDE:
            raise himpi_error(
                "vpc",
                "ILLEGAL_PARAM",
                f"a workspace for pictures of {sides} is asked for",
                f"list the largest pictures, with sides from 1 to {MAX_SIDE}",
            )
        self._has_workspace = True
