"""Numbers of every node instance: counts, rates, shares and percentiles."""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from softnpu.flow.running import cells
from softnpu.flow.running.cells import CALLING, STATES
from softnpu.flow.watch.sources import Source, source_of

WINDOW = 10.0
_NS = 1e9
_clock = time.perf_counter_ns


@dataclass(frozen=True)
class Row:
    """One node instance. Durations in seconds, memory in bytes; `rate` and `busy` are over the last seconds.

    `busy` is None for a node with a stream function: it is inside its function also while it waits for input.
    `memory` is None where the system does not tell.
    """

    node: str
    instance: int
    state: str
    function: str
    trans_id: int
    since: float
    calls: int
    failures: int
    rate: float
    busy: float | None
    busy_seconds: float
    received: int
    sent: int
    dropped: int
    queue: int
    call_p50: float
    call_p90: float
    call_p99: float
    wait_p50: float
    wait_p90: float
    wait_p99: float
    restarts: int
    pid: int
    memory: int | None


@dataclass(frozen=True)
class _Sample:
    """What rates are made from, at one moment."""

    at: int
    calls: list[int]
    busy: list[int]


class Metrics:
    """Watches a session; the first look gives rates since `started` (perf_counter_ns), when all counts were 0."""

    def __init__(self, session: Any, started: int | None = None, window: float = WINDOW) -> None:
        self.source: Source = source_of(session)
        self._window = int(window * _NS)
        self._samples: deque[_Sample] = deque()
        count = len(self.source.rows)
        if started is None:
            self._sample([row.read() for row in self.source.rows], _clock())
        else:
            self._samples.append(_Sample(started, [0] * count, [0] * count))

    def rows(self) -> list[Row]:
        """All node instances, as they are now."""
        now = _clock()
        numbers = [row.read() for row in self.source.rows]
        oldest = self._sample(numbers, now)
        return [self._row(seat.number, numbers[seat.number], oldest, now) for seat in self.source.seats]

    def _sample(self, numbers: list[dict[str, int]], now: int) -> _Sample:
        """Remember this moment; the moment to compare with, about one window ago."""
        samples = self._samples
        samples.append(_Sample(now, [row["calls"] for row in numbers], [_busy(row, now) for row in numbers]))
        while len(samples) > 2 and samples[1].at <= now - self._window:
            samples.popleft()
        return samples[0]

    def _row(self, seat: int, numbers: dict[str, int], oldest: _Sample, now: int) -> Row:
        source = self.source
        instance = source.seats[seat]
        node = source.plan.nodes[instance.node]
        span = max(now - oldest.at, 1)
        calling = numbers["state"] == CALLING
        times, waits = source.rows[seat].histogram(cells.TIMES), source.rows[seat].histogram(cells.WAITS)
        stream = any(function.stream for function in node.functions)
        pid = source.pid(numbers)
        return Row(
            node=node.name,
            instance=instance.instance,
            state=STATES[numbers["state"]],
            function=node.functions[numbers["function"]].name if calling else "",
            trans_id=numbers["trans_id"],
            since=(now - numbers["began"]) / _NS if calling else 0.0,
            calls=numbers["calls"],
            failures=numbers["failures"],
            rate=(numbers["calls"] - oldest.calls[seat]) * _NS / span,
            busy=None if stream else min(1.0, max(0, _busy(numbers, now) - oldest.busy[seat]) / span),
            busy_seconds=numbers["busy"] / _NS,
            received=numbers["received"],
            sent=numbers["sent"],
            dropped=numbers["dropped"],
            queue=source.queue(seat),
            **_percentiles("call", times),
            **_percentiles("wait", waits),
            restarts=numbers["life"],
            pid=pid,
            memory=memory_of(pid),
        )


def _busy(numbers: dict[str, int], now: int) -> int:
    """Nanoseconds inside functions, with the call that is going on."""
    return numbers["busy"] + (max(0, now - numbers["began"]) if numbers["state"] == CALLING else 0)


def _percentiles(what: str, counts: list[int]) -> dict[str, float]:
    return {f"{what}_p{share}": cells.percentile(counts, share / 100) / _NS for share in (50, 90, 99)}


def memory_of(pid: int) -> int | None:
    """Resident bytes of a process, with the shared memory that it has touched; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None  # another system, or the process has ended
