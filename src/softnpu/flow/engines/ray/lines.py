"""Ways from one process to the others: calls of actors, and a box that the application empties."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from softnpu.flow.engines.ray.records import Item

_CALLS = 2  # in flight at a time: what is made meanwhile goes together in the next
_BATCH = 96 << 10

Acked = Callable[[int, int, int], None]


class Clerk(threading.Thread):
    """Does what answers ask for, off the threads of Ray. `idle()` is asked for how long it may sleep, and called then."""

    def __init__(self, name: str, idle: Callable[[], float | None]) -> None:
        super().__init__(name=name, daemon=True)
        self._idle = idle
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def do(self, job: Callable[[], None] | None) -> None:
        """Have something done; None ends the thread."""
        self._jobs.put(job)

    def run(self) -> None:
        """Until `do(None)`."""
        while True:
            try:
                job = self._jobs.get(timeout=self._idle())
            except queue.Empty:
                continue
            if job is None:
                return
            job()


class Line:
    """To one other process. Items wait here while enough calls are in flight; the link's lock is held by callers."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.life = 0  # of the other
        self.items: deque[tuple[Item, tuple[Any, ...], int]] = deque()
        self.size = 0
        self.posted = 0
        self.acked = 0

    def post(self, item: Item, refs: tuple[Any, ...] = (), size: int = 100) -> None:
        """Add one to what goes next."""
        self.items.append((item, refs, size))
        self.size += size
        self.posted += 1

    def take(self, limit: int) -> tuple[list[Item], list[Any]]:
        """The next items, together not much larger than a limit, and their objects."""
        items: list[Item] = []
        objects: list[Any] = []
        taken = 0
        while self.items and (not items or taken + self.items[0][2] <= limit):
            item, refs, size = self.items.popleft()
            items.append(item)
            objects += refs
            taken += size
        self.size -= taken
        return items, objects

    def go(self) -> None:
        """Send what may go now."""
        raise NotImplementedError

    def first_meeting(self, handle: Any) -> bool:
        """The other's handle came; False if this side had one already."""
        return False

    def renewed(self, life: int, handle: Any) -> None:
        """The other was started again: nothing that was on its way arrives."""
        self.life = life
        self.items.clear()
        self.size = 0
        self.acked = self.posted


class Calls(Line):
    """Calls of another actor; each answer tells that its items arrived."""

    def __init__(self, number: int, sender: tuple[int, int], clerk: Clerk, acked: Acked) -> None:
        super().__init__(number)
        self._sender = sender  # process and life of this side
        self._clerk = clerk
        self._acked = acked
        self._flying = 0
        self.handle: Any = None

    def go(self) -> None:
        """See Line."""
        while self.items and self._flying < _CALLS and self.handle is not None:
            items, objects = self.take(_BATCH)
            self._flying += 1
            future = self.handle.deliver.remote(*self._sender, items, *objects).future()
            future.add_done_callback(self._answered(self.life, self.posted - len(self.items)))

    def _answered(self, life: int, end: int) -> Callable[[Any], None]:
        """Also for calls that failed: their items stay with the sender until a new life of the receiver takes them."""
        return lambda future: self._clerk.do(lambda: self._acked(self.number, life, end))

    def answered(self, life: int, end: int) -> None:
        """An answer came."""
        if life == self.life:
            self._flying -= 1
            self.acked = max(self.acked, end)

    def first_meeting(self, handle: Any) -> bool:
        """See Line."""
        if self.handle is not None:
            return False
        self.handle = handle
        return True

    def renewed(self, life: int, handle: Any) -> None:
        """See Line."""
        super().renewed(life, handle)
        self.handle = handle
        self._flying = 0


class Box(Line):
    """To the application, which is no actor: it asks again and again, and each question says what arrived before."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._ready: list[tuple[list[Item], list[Any], int]] = []
        self._some = threading.Condition()
        self.over = False

    def go(self) -> None:
        """See Line."""
        if self.items:
            items, objects = self.take(self.size)
            with self._some:
                self._ready.append((items, objects, self.posted))
                self._some.notify()

    def end(self) -> None:
        """Nothing comes any more."""
        with self._some:
            self.over = True
            self._some.notify()

    def answered(self, life: int, end: int) -> None:
        """The application has so many."""
        self.acked = max(self.acked, end)

    def collect(self, timeout: float) -> tuple[list[Item], list[Any], int, bool]:
        """What came, with how many these make together, and whether it is the end; waits a while for something."""
        with self._some:
            self._some.wait_for(lambda: self._ready or self.over, timeout)
            ready, self._ready = self._ready, []
            over = self.over
        items = [item for batch, _, _ in ready for item in batch]
        objects = [each for _, parts, _ in ready for each in parts]
        return items, objects, ready[-1][2] if ready else 0, over
