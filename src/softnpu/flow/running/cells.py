"""What a node instance is doing, in shared memory: one row of numbers that its worker writes and anybody may read.

The row outlives its writer: after a crash it says which transaction was being worked on.
"""

from __future__ import annotations

from typing import Any

ROW = 4096
_WORDS = ROW // 8
FIELDS = (
    "state", "trans_id", "function", "began", "calls", "failures", "busy", "received", "sent", "dropped", "backlog",
    "idle_since", "life", "pid", "waited",
)  # fmt: skip
STARTING, READY, CALLING, HELD_UP, STOPPED, ENDED = range(6)
STATES = ("starting", "ready", "calling", "held up", "stopped", "ended")
TIMES = 64  # where the histogram of call times begins
WAITS = 256  # where the histogram of waiting times begins
BUCKETS = 160  # four to an octave, in nanoseconds


class Cells:
    """One row."""

    __slots__ = ("words",)

    def __init__(self, buffer: Any, number: int) -> None:
        self.words = memoryview(buffer)[number * ROW : (number + 1) * ROW].cast("Q")

    def read(self) -> dict[str, int]:
        """All plain numbers."""
        return {name: self.words[index] for index, name in enumerate(FIELDS)}

    def histogram(self, first: int) -> list[int]:
        """The counts of one histogram."""
        return self.words[first : first + BUCKETS].tolist()


(
    STATE, TRANS_ID, FUNCTION, BEGAN, CALLS, FAILURES, BUSY, RECEIVED, SENT, DROPPED, BACKLOG, IDLE_SINCE, LIFE, PID, WAITED
) = range(len(FIELDS))  # fmt: skip
_ALL_WAITS = 64  # so many waits are measured each, later one in eight: the clock costs more than the rest of an arrival


def bucket(nanoseconds: int) -> int:
    """The bucket of a duration: its octave and the two bits below the first."""
    if nanoseconds < 4:
        return nanoseconds
    bits = nanoseconds.bit_length()
    index = (bits << 2) - 8 + ((nanoseconds >> (bits - 3)) & 3)
    return index if index < BUCKETS else BUCKETS - 1


def measured(received: int) -> bool:
    """Whether the wait of this message, the n-th of its node, is to be measured."""
    return received < _ALL_WAITS or not received & 7


def waited(words: memoryview, nanoseconds: int) -> None:
    """A message left its queue after so long."""
    words[WAITED] += nanoseconds
    words[WAITS + bucket(nanoseconds)] += 1


def called(words: memoryview, nanoseconds: int) -> None:
    """A call ended after so long."""
    words[STATE] = READY
    words[CALLS] += 1
    words[BUSY] += nanoseconds
    words[TIMES + bucket(nanoseconds)] += 1


def upper(index: int) -> int:
    """Where a bucket ends, in nanoseconds."""
    if index < 4:
        return index + 1
    octave, part = index // 4 + 1, index % 4
    return ((4 + part + 1) << octave) >> 2


def percentile(counts: list[int], share: float) -> int:
    """The duration below which that share of the calls lies, in nanoseconds; 0 without any."""
    total = sum(counts)
    if not total:
        return 0
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if seen >= share * total:
            return upper(index)
    return upper(len(counts) - 1)
