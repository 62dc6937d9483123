"""Free stretches of an address space."""

from __future__ import annotations

from bisect import bisect_left, insort


class FreeRuns:
    """Free stretches of chunks, found by length (best fit) and joined with their neighbours."""

    def __init__(self) -> None:
        self._lengths: list[int] = []
        self._starts: dict[int, dict[int, None]] = {}
        self._by_start: dict[int, int] = {}
        self._by_end: dict[int, int] = {}

    def add(self, start: int, length: int) -> None:
        """Give a stretch back."""
        before = self._by_end.get(start)
        if before is not None:
            length += self._drop(before)
            start = before
        if start + length in self._by_start:
            length += self._drop(start + length)
        self._by_start[start] = length
        self._by_end[start + length] = start
        if length not in self._starts:
            self._starts[length] = {}
            insort(self._lengths, length)
        self._starts[length][start] = None

    def take(self, length: int) -> int | None:
        """The start of a stretch of at least this length, cut to it; None when there is none."""
        position = bisect_left(self._lengths, length)
        if position == len(self._lengths):
            return None
        start = next(iter(self._starts[self._lengths[position]]))
        whole = self._drop(start)
        if whole > length:
            self.add(start + length, whole - length)
        return start

    def all(self) -> list[tuple[int, int]]:
        """Every free stretch as (start, length)."""
        return list(self._by_start.items())

    def _drop(self, start: int) -> int:
        length = self._by_start.pop(start)
        del self._by_end[start + length]
        starts = self._starts[length]
        del starts[start]
        if not starts:
            del self._starts[length]
            del self._lengths[bisect_left(self._lengths, length)]
        return length
