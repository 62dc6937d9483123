"""Events and notifies: marks in the order of a stream that others can wait for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    from softnpu.runtime.device import Device

    class Home(Protocol):
        """The context that events and notifies live in."""

        device: Device
        events: set[Event]
        notifies: set[Notify]


SYNC, PROGRESS, TIME_LINE, DEVICE_USE_ONLY, EXTERNAL, IPC = 0x1, 0x2, 0x8, 0x10, 0x20, 0x40
ALL_FLAGS = SYNC | PROGRESS | TIME_LINE | DEVICE_USE_ONLY | EXTERNAL | IPC
_LOOK_SECONDS = 1.0


class Mark:
    """One recording of an event: a gate that opens once and remembers when."""

    __slots__ = ("_gate", "done", "time_ns")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self.time_ns = 0
        self.done = False

    def complete(self) -> None:
        """Open the gate; a second time does nothing."""
        if not self.done:
            self.time_ns = time.monotonic_ns()
            self.done = True
            self._gate.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the gate is open; False when the time is over."""
        if self.done:
            return True
        if not self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            return self.done
        self._gate.release()
        return True


class Wait(Mark):
    """A stream's wait for an event. It is over when its task is, be it done, failed, skipped or dropped."""

    __slots__ = ("_event",)

    def __init__(self, event: Event) -> None:
        super().__init__()
        self._event = event
        event.count_wait(+1)

    def complete(self) -> None:
        if not self.done:
            super().complete()
            self._event.count_wait(-1)


class Event:
    """An ACL event. `kind` is plain (`create_event`), flag (`create_event_with_flag`) or ex."""

    def __init__(self, context: Home, kind: str, flag: int, number: int) -> None:
        self.context = context
        self.kind = kind
        self.flag = flag
        self.id = number
        self.mark: Mark | None = None
        self.waits = 0
        self._lock = threading.RLock()
        self.handle = 0

    @property
    def timed(self) -> bool:
        """Whether the event keeps times."""
        return self.kind == "plain" or bool(self.flag & TIME_LINE)

    def complete(self) -> bool:
        """Whether the last recording was reached; an event that was never recorded counts as complete."""
        mark = self.mark
        return mark is None or mark.done

    def wait(self, timeout: float | None) -> bool:
        """Wait for the last recording; False when the time is over, or the interpreter ends and nothing comes any more."""
        mark = self.mark
        if mark is None or timeout is not None:
            return mark is None or mark.wait(timeout)
        while not mark.wait(_LOOK_SECONDS):
            if sys.is_finalizing():
                return False
        return True

    def count_wait(self, change: int) -> None:
        """Keep the number of stream waits that are not over."""
        with self._lock:
            self.waits += change


class Notify:
    """A flag that one stream sets and another waits for and clears."""

    def __init__(self, context: Home, flag: int, number: int) -> None:
        self.context = context
        self.flag = flag
        self.id = number
        self.handle = 0
        self.key = ""
        self.at_end: Callable[[Notify], None] | None = None  # of whoever shares it with other processes
        self._cell = Cell()

    @property
    def cell(self) -> Cell:
        """Where the flag lives: in this process, or in shared memory once it was exported."""
        return self._cell

    def move(self, cell: Cell) -> None:
        """Put the flag into another cell, keeping its value."""
        old, self._cell = self._cell, cell
        if old.take(0):
            cell.set()

    def end(self) -> None:
        """It is destroyed: whoever shares it lets go."""
        if self.at_end is not None:
            self.at_end(self)

    def record(self) -> None:
        """Set the flag."""
        self._cell.set()

    def take(self, seconds: float) -> bool:
        """Wait at most so long for the flag and clear it; False when it did not come."""
        return self._cell.take(seconds)

    def reset(self) -> None:
        """Clear the flag."""
        self._cell.clear()


class Cell:
    """A flag inside one process."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._value = False

    def is_set(self) -> bool:
        """The flag."""
        return self._value

    def set(self) -> None:
        """Raise it and wake who waits."""
        with self._condition:
            self._value = True
            self._condition.notify_all()

    def clear(self) -> None:
        """Lower it."""
        with self._condition:
            self._value = False

    def take(self, seconds: float) -> bool:
        """Wait at most so long for the flag and clear it; False when it did not come."""
        with self._condition:
            if not self._condition.wait_for(lambda: self._value, seconds):
                return False
            self._value = False
            return True


class SharedCell(Cell):
    """A flag in a word of shared memory, seen by several processes; waiting polls, since no lock is shared."""

    def __init__(self, cell: memoryview) -> None:
        super().__init__()
        self._word = cell

    def is_set(self) -> bool:
        return bool(self._word[0])

    def set(self) -> None:
        self._word[0] = 1

    def clear(self) -> None:
        self._word[0] = 0

    def take(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.00005
        while not self._word[0]:
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.002)
        self._word[0] = 0
        return True
