"""An ordered queue of tasks with a worker thread that exists only while there is work.

A task is a callable without arguments that must not raise; the stream above wraps what may fail. On an idle queue a
cheap task runs at once in the caller's thread: that keeps the order and saves two thread switches.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import ERROR, log, no_line

Task = Callable[[], None]
_IDLE_SECONDS = 5.0
_RECHECK_SECONDS = 1.0  # a wake-up lost to an interruption costs this much, not for ever


class _Turn:
    """The right to run a task, held by one thread at a time."""

    __slots__ = ("ident",)

    def __init__(self, ident: int) -> None:
        self.ident = ident


class Queue:
    """Tasks run one after the other in submission order, beside the tasks of other queues.

    A garbage collection or a signal handler may call any function here in the middle of another: the lock is re-entrant,
    no thread is started while it is held (that takes locks of `threading`), and whoever waits sees to it that a worker
    is there. An exception may come out of a signal handler at any call: what belongs together is assigned in lines without
    a call, and a turn that was taken is given back however often that is interrupted.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: deque[Task] = deque()
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        # What Condition itself uses to let go of a re-entrant lock however often it is held.
        self._is_mine: Callable[[], bool] = getattr(self._lock, "_is_owned")  # noqa: B009
        self._let_go: Callable[[], object] = getattr(self._lock, "_release_save")  # noqa: B009
        self._take_again: Callable[[object], None] = getattr(self._lock, "_acquire_restore")  # noqa: B009
        self._waiters: list[threading.Lock] = []
        self._turn: _Turn | None = None  # of the thread that runs a task
        self._worker: threading.Thread | None = None
        self._starter: int = 0  # ident of the thread that is about to start the worker
        self._finished = 0
        self._dropped = 0  # tasks dropped behind the one that runs: over as soon as that one is
        self._closed = False

    def submit(self, task: Task, inline: bool = False) -> None:
        """Queue a task; with `inline`, run it here when nothing is before it."""
        turn = _Turn(threading.get_ident())
        try:
            with self._lock:
                if inline and self._turn is None and not self._tasks:
                    self._turn = turn
                    start = False
                else:
                    self._tasks.append(task)
                    start = self._call_worker()
            if self._turn is turn:
                task()
        finally:
            interrupted: BaseException | None = None
            while self._turn is turn:  # entering a function can be interrupted, too: hence no function
                try:
                    self._end(turn)
                except BaseException as error:
                    interrupted = error
            if interrupted is not None:
                raise interrupted
        if start:
            try:
                self._start_worker()
            except NpuError:
                if self._take_back(task):
                    raise

    def _help(self) -> None:
        """Run here what waits now and nobody has begun: quicker than waiting for the worker to wake up and do it."""
        if self._is_mine():  # a destructor inside a call that holds the lock: others could not end what this waits for
            return
        for _ in range(len(self._tasks)):
            turn = _Turn(threading.get_ident())
            task: Task | None = None
            try:
                with self._lock:
                    if self._turn is not None or not self._tasks:
                        return
                    self._turn = turn
                    task = self._tasks.popleft()
                task()
            finally:
                interrupted: BaseException | None = None
                while self._turn is turn:  # entering a function can be interrupted, too: hence no function
                    try:
                        self._end(turn)
                    except BaseException as error:
                        interrupted = error
                if interrupted is not None:
                    raise interrupted

    def _end(self, turn: _Turn) -> None:
        """Give a turn back; an interruption is passed on when that is done."""
        interrupted: BaseException | None = None
        start = done = False
        while not done:
            try:
                with self._lock:
                    if self._turn is turn:
                        self._finished += 1 + self._dropped
                        self._dropped = 0
                        self._turn = None
                    self._tell()
                    start = bool(self._tasks) and self._call_worker()
                done = True
            except BaseException as error:
                interrupted = error
        if start:
            with contextlib.suppress(NpuError):  # whoever waits for those tasks tries again, and is told
                self._start_worker()
        if interrupted is not None:
            raise interrupted

    def _tell(self) -> None:
        """Wake all who wait for progress."""
        while self._waiters:
            self._waiters.pop().release()

    # ---- the worker -------------------------------------------------------------------------------------------------

    def _call_worker(self) -> bool:
        """Wake the worker; True when there is none and the caller must start it after letting go of the lock."""
        if self._worker is not None:
            self._work.notify()
            return False
        caller = threading.get_ident()
        if self._starter not in (0, caller):
            return False
        self._starter = caller  # when it is the caller already, this call is nested in the one that starts the worker
        return True

    def _start_worker(self) -> None:
        try:
            if sys.is_finalizing():
                raise RuntimeError("the interpreter ends")
            threading.Thread(target=self._loop, name=self.name, daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._starter = 0
                self._tell()
            raise NpuError(
                codes.RT_RESOURCE_ALLOC_FAIL,
                f"no thread could be started for {self.name}: {error}",
                "end threads that are no longer needed",
            ) from error

    def _take_back(self, task: Task) -> bool:
        with self._lock:
            if task not in self._tasks:
                return False
            self._tasks.remove(task)
            self._count_dropped(1)
            return True

    def _loop(self) -> None:
        with self._lock:
            self._starter = 0
            if self._worker is not None:  # a nested call was quicker
                return
            self._worker = threading.current_thread()
        turn = _Turn(threading.get_ident())
        while (task := self._next(turn)) is not None:
            try:
                task()
            except BaseException as error:  # the worker must live on, or all who wait would wait for ever
                log().write(
                    ERROR, f"a task of {self.name} raised {error!r}", "RUNTIME", "run_task", no_line("queue.py")
                )
            del task  # a finished task must not keep its arguments alive while the worker idles
            self._end(turn)

    def _next(self, turn: _Turn) -> Task | None:
        """The next task for the worker, or None when it has been idle for long."""
        with self._lock:
            deadline = time.monotonic() + _IDLE_SECONDS
            while self._turn is not None or not self._tasks:
                left = deadline - time.monotonic()
                if self._closed or left <= 0:
                    self._worker = None
                    return None
                self._work.wait(left)
            self._turn = turn  # before the task leaves: the queue must not look idle in between
            return self._tasks.popleft()

    # ---- seen from outside ------------------------------------------------------------------------------------------

    def busy(self) -> bool:
        """Whether a task runs or waits."""
        return self._turn is not None or bool(self._tasks)

    def runs_here(self) -> bool:
        """Whether the calling thread is inside a task of this queue (waiting for it would never end)."""
        turn = self._turn
        return turn is not None and turn.ident == threading.get_ident()

    def synchronize(self, timeout: float | None = None) -> bool:
        """Wait for everything submitted so far; False when the time is over."""
        if self._turn is None and not self._tasks:
            return True
        if timeout is None:
            self._help()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            target = self._finished + self._dropped + len(self._tasks) + (self._turn is not None)
        while True:
            waiter = threading.Lock()
            waiter.acquire()
            with self._lock:
                if self._finished >= target or sys.is_finalizing():  # then workers stand still for good
                    return True
                start = self._unattended() and self._call_worker()
                self._waiters.append(waiter)
            try:
                if start:
                    self._start_worker()
                left = math.inf if deadline is None else deadline - time.monotonic()
                if not self._sleep(waiter, min(left, _RECHECK_SECONDS)) and left <= 0 and self._finished < target:
                    return False
            finally:
                with self._lock, contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)

    def _sleep(self, waiter: threading.Lock, seconds: float) -> bool:
        """Wait without the lock: a destructor may wait here while the call it interrupted holds it further out."""
        state = self._let_go() if self._is_mine() else None
        try:
            return waiter.acquire(timeout=max(0.0, seconds))
        finally:
            if state is not None:
                self._take_again(state)

    def _unattended(self) -> bool:
        return bool(self._tasks) and self._turn is None and self._worker is None

    def drop(self) -> list[Task]:
        """Take all tasks that have not begun out of the queue and return them."""
        with self._lock:
            dropped = list(self._tasks)
            self._tasks.clear()
            self._count_dropped(len(dropped))
            return dropped

    def _count_dropped(self, count: int) -> None:
        if self._turn is not None:
            self._dropped += count
        else:
            self._finished += count
            self._tell()

    def close(self) -> None:
        """Let the worker end once it is idle."""
        with self._lock:
            self._closed = True
            self._work.notify_all()

    def join(self, seconds: float) -> None:
        """Wait at most so long for the worker of a closed queue."""
        worker = self._worker
        if worker is not None and worker is not threading.current_thread():
            worker.join(seconds)
