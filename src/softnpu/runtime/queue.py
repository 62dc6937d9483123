"""An ordered queue of tasks with a worker thread that exists only while there is work.

A task is a callable without arguments that must not raise; the stream above wraps what may fail. On an idle queue a
cheap task runs at once in the caller's thread: that keeps the order and saves two thread switches.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

Task = Callable[[], None]
_IDLE_SECONDS = 5.0


class Queue:
    """Tasks run one after the other in submission order, beside the tasks of other queues."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: deque[Task] = deque()
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._running: int = 0  # ident of the thread that runs a task, 0 when idle
        self._worker: threading.Thread | None = None
        self._submitted = 0
        self._finished = 0
        self._closed = False

    def submit(self, task: Task, inline: bool = False) -> None:
        """Queue a task; with `inline`, run it here when nothing is before it."""
        with self._lock:
            self._submitted += 1
            if not (inline and not self._running and not self._tasks):
                self._tasks.append(task)
                self._wake()
                return
            self._running = threading.get_ident()
        self._run(task)

    def _run(self, task: Task) -> None:
        try:
            task()
        finally:
            with self._lock:
                self._running = 0
                self._finished += 1
                self._progress.notify_all()
                if self._tasks:
                    self._wake()

    def _wake(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._loop, name=self.name, daemon=True)
            self._worker.start()
        else:
            self._work.notify()

    def _loop(self) -> None:
        while True:
            with self._lock:
                deadline = time.monotonic() + _IDLE_SECONDS
                while self._running or not self._tasks:
                    left = deadline - time.monotonic()
                    if self._closed or left <= 0:
                        self._worker = None
                        return
                    self._work.wait(left)
                task = self._tasks.popleft()
                self._running = threading.get_ident()
            self._run(task)
            del task  # a finished task must not keep its arguments alive while the worker idles

    def busy(self) -> bool:
        """Whether a task runs or waits."""
        return bool(self._running or self._tasks)

    def runs_here(self) -> bool:
        """Whether the calling thread is inside a task of this queue (waiting for it would never end)."""
        return self._running == threading.get_ident()

    def synchronize(self, timeout: float | None = None) -> bool:
        """Wait for everything submitted so far; False when the time is over."""
        if not self._running and not self._tasks:
            return True
        with self._lock:
            target = self._submitted
            return self._progress.wait_for(lambda: self._finished >= target, timeout)

    def drop(self) -> list[Task]:
        """Take all tasks that have not begun out of the queue and return them."""
        with self._lock:
            dropped = list(self._tasks)
            self._tasks.clear()
            self._finished += len(dropped)
            self._progress.notify_all()
            return dropped

    def close(self) -> None:
        """Let the worker end once it is idle."""
        with self._lock:
            self._closed = True
            self._work.notify_all()
