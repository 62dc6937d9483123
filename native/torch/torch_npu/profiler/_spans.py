"""Times when something ran: joined, cut and subtracted. A span is (start, end)."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def joined(spans: Iterable[Span]) -> list[Span]:
    """Without overlaps, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def cut(spans: Iterable[Span], window: Span) -> list[Span]:
    """The parts inside of a window."""
    low, high = window
    return [(max(start, low), min(end, high)) for start, end in spans if start < high and end > low]


def without(spans: list[Span], others: list[Span]) -> list[Span]:
    """The parts of joined spans that no other joined span covers."""
    rest: list[Span] = []
    for start, end in spans:
        at = start
        for low, high in others:
            if high <= at or low >= end:
                continue
            if low > at:
                rest.append((at, low))
            at = max(at, high)
        if at < end:
            rest.append((at, end))
    return rest


def total(spans: Iterable[Span]) -> int:
    """How long in all."""
    return sum(end - start for start, end in spans)
