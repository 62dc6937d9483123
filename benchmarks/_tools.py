"""What the benchmarks share: interleaved medians, and rows of the result table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One line of the table: what was measured, how much, what it is compared with, and the wish."""

    name: str
    ours: str
    peer: str
    ratio: str
    wish: str
    good: bool


def interleaved(*functions: Callable[[], None], rounds: int = 9, pause: float = 0.0) -> list[float]:
    """Median seconds of each function, measured in turns so that a noisy moment hits all of them; the pause before each
    lets threads of the one before fall asleep (engines spin for a while)."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, kept in zip(functions, times, strict=True):
            time.sleep(pause)
            start = time.perf_counter()
            function()
            kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in times]


def loop(function: Callable[[], object], count: int) -> Callable[[], None]:
    """A function that calls another `count` times."""

    def run() -> None:
        for _ in range(count):
            function()

    return run
