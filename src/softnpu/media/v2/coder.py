"""What the decode and encode channels of `acl.himpi` share: work goes in, a thread of the channel does it, results are taken out."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from softnpu.base.errors import NpuError
from softnpu.base.log import ERROR, WARNING, log
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.sys.ready import Ready
from softnpu.runtime.process import process

_MAX_TOLD = 100  # different ones: a damaged stream must not fill the log
_END_SECONDS = 10.0  # far more than one picture takes


class Coder(ABC):
    """A channel with a queue, a worker thread and results.

    All lists belong to `changed`, whose lock is never held while a library works. Waiting calls are interruptible, and end
    with UNEXIST when the channel is destroyed or reset meanwhile.
    """

    module = ""

    def __init__(self, number: int) -> None:
        owner = process()
        self.number = number
        self.device = owner.current().device
        self.memory = owner.memory
        self.ready = Ready()
        self.changed = threading.Condition()
        self.waiting: deque[Any] = deque()
        self.results: deque[Any] = deque()
        self.started = False
        self.closed = False
        self.current: Any = None  # what the worker is at
        self._life = 0  # goes up with each reset
        self._thread: threading.Thread | None = None
        self._told: set[str] = set()

    @property
    def working(self) -> bool:
        """Whether the worker is at something."""
        return self.current is not None

    # ---- for the subclasses -----------------------------------------------------------------------------------------

    @abstractmethod
    def work(self, item: Any) -> list[Any]:
        """Do one piece of work, in the worker thread; the results, in their order."""

    @abstractmethod
    def failed(self, item: Any, error: Exception) -> list[Any]:
        """The results that stand for a piece of work that raised: nothing that was sent may get lost."""

    @abstractmethod
    def finish(self) -> None:
        """Give back what the channel holds; nothing runs any more."""

    def may_work(self) -> bool:
        """Whether there is room for more results."""
        return True

    def wakes(self) -> bool:
        """Whether the descriptor shall be readable."""
        return bool(self.results)

    def error(self, name: str, text: str, remedy: str = "") -> NpuError:
        """A failure of this channel."""
        return himpi_error(self.module, name, f"{self.module} channel {self.number}: {text}", remedy)

    def tell(self, text: str) -> None:
        """Warn once about something that has no effect here, or would fail on the chip."""
        if text not in self._told and len(self._told) < _MAX_TOLD:
            self._told.add(text)
            log().write(WARNING, f"{self.module} channel {self.number}: {text}", "DVPP", self.module)

    def complain(self, text: str) -> None:
        """A line about something that failed."""
        log().write(ERROR, f"{self.module} channel {self.number}: {text}", "DVPP", self.module)

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def wait_until(self, holds: Callable[[], bool], ms: int) -> bool:
        """Wait, with `changed` held, until something holds; False when the time is over."""
        if ms < -1:
            raise self.error(
                "ILLEGAL_PARAM", f"the time limit is {ms} ms", "-1 waits for ever, 0 does not wait, else milliseconds"
            )
        life = self._life
        held = self.changed.wait_for(
            lambda: self.closed or life != self._life or holds(), None if ms == -1 else ms / 1000
        )
        if self.closed or life != self._life:
            raise self.error("UNEXIST", "it was destroyed or reset meanwhile", "create it anew")
        return held

    def need_open(self) -> None:
        """Raise when another thread has destroyed the channel; `changed` is held."""
        if self.closed:
            raise self.error("UNEXIST", "it was destroyed", "create it anew")

    # ---- the worker -------------------------------------------------------------------------------------------------

    def put(self, item: Any) -> None:
        """Hand work to the worker; `changed` is held."""
        self.waiting.append(item)
        if self._thread is None:
            self._start()
        self.changed.notify_all()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self.module}-{self.number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self.waiting.pop()
            remedy = "end threads that are no longer needed"
            raise self.error("NO_MEM", f"no thread could be started: {error}", remedy) from error
        self._thread = thread

    def _run(self) -> None:
        """Work until the channel is closed, then give back what it holds: whoever closed it may not have waited so long."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.closed or (self.waiting and self.may_work()))
                if self.closed:
                    break
                self.current = item = self.waiting.popleft()
            try:
                results = self.work(item)
            except Exception as error:  # the worker must live on, and who sent the work must hear of it
                results = self.failed(item, error)
            del item
            with self.changed:
                self.current = None
                self.add_results(results)
                self.changed.notify_all()
            del results
        self._end()

    def add_results(self, results: list[Any]) -> None:
        """Offer results; `changed` is held."""
        self.results.extend(results)
        if results and self.wakes():
            self.ready.set()

    def settle(self) -> None:
        """Clear the descriptor when nothing is left to take; `changed` is held."""
        if not self.wakes():
            self.ready.clear()
        self.changed.notify_all()

    def drop_all(self) -> None:
        """Forget waiting work and results, once the current piece is done."""
        with self.changed:
            self._life += 1
            self.waiting.clear()
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.working, _END_SECONDS)
            self.results.clear()
            self.settle()

    def close(self) -> None:
        """End the channel: who waits is woken, the worker ends after its current piece of work."""
        with self.changed:
            if self.closed:
                return
            self.closed = True
            self.waiting.clear()
            self.changed.notify_all()
            thread = self._thread
        if thread is None:
            self._end()
        elif thread is not threading.current_thread():  # where a destructor may come here, too
            thread.join(_END_SECONDS)
            if thread.is_alive():
                self.tell(f"the worker did not end in {_END_SECONDS:g} s")
        self.ready.close()

    def _end(self) -> None:
        self.finish()
        self.results.clear()
