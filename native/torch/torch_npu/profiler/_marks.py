"""Marks and ranges of the program (`torch.npu.mstx`), kept while a profile wants them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

Mark = tuple[str, int, int, int]  # text, nanoseconds of start and end, thread
_lock = threading.Lock()
_numbers = itertools.count(1)


class _State:
    """Who listens, and what was seen."""

    wants: Callable[[str], bool] | None = None
    seen: list[Mark] = []
    open: dict[int, tuple[str, int, int]] = {}


def begin(wants: Callable[[str], bool]) -> None:
    """Keep the domains that `wants` names."""
    with _lock:
        _State.wants, _State.seen, _State.open = wants, [], {}


def end() -> list[Mark]:
    """What was seen; ranges that are still open have no end and are left away."""
    with _lock:
        seen, _State.wants, _State.seen, _State.open = _State.seen, None, [], {}
    return seen


def mark(message: str, domain: str) -> None:
    """A moment."""
    with _lock:
        if _State.wants is not None and _State.wants(domain):
            now = time.time_ns()
            _State.seen.append((message, now, now, threading.get_native_id()))


def start(message: str, domain: str) -> int:
    """The beginning of a range; the number ends it. 0: nobody listens."""
    with _lock:
        if _State.wants is None or not _State.wants(domain):
            return 0
        number, now = next(_numbers), time.time_ns()
        _State.open[number] = (message, now, threading.get_native_id())
        return number


def stop(number: int) -> None:
    """The end of a range."""
    with _lock:
        opened = _State.open.pop(number, None)
        if opened is not None:
            message, start_time, thread = opened
            _State.seen.append((message, start_time, time.time_ns(), thread))
