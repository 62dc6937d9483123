"""Waiting for a condition, with a limit: tests do not sleep and hope."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

LIMIT_S = 20.0  # far more than anything here needs


def eventually(question: Callable[[], object], seconds: float = LIMIT_S) -> bool:
    """Whether it becomes true: for what happens after a call that does not wait for it."""
    until = time.monotonic() + seconds
    while not question():
        if time.monotonic() > until:
            return False
        threading.Event().wait(0.005)
    return True


def settled(question: Callable[[], int], times: int = 10) -> int:
    """A count that has stayed the same for a moment, such as the number of threads after some have ended."""
    value, same = question(), 0
    until = time.monotonic() + LIMIT_S
    while same < times and time.monotonic() < until:
        threading.Event().wait(0.005)
        latest = question()
        value, same = latest, same + 1 if latest == value else 0
    return value


def process_state(pid: int) -> str:
    """What the kernel says of a process: R runs, S sleeps, Z is dead and not waited for."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
