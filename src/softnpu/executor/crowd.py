"""Sharing the cores: how many threads a run may use while others run beside it.

A run alone gets all cores. Runs side by side split them, since two engines that each start a thread per core lose more by
waiting for each other than they gain.
"""

from __future__ import annotations

import threading

from softnpu.base.config import compute_threads

_lock = threading.Lock()
_running = 0


def enter() -> int:
    """Begin a run; the number of threads it should use: all, or the largest half, quarter … that leaves others theirs."""
    global _running
    with _lock:
        _running += 1
        running = _running
    return share(compute_threads(), running)


def share(total: int, running: int) -> int:
    """The threads of one run out of `running`: the total halved until all fit."""
    threads = total
    while threads > 1 and threads * running > total:
        threads //= 2
    return threads


def leave() -> None:
    """End a run."""
    global _running
    with _lock:
        _running -= 1
