"""`torch.npu.mstx`: marks and ranges that a profile with `mstx=True` shows. Without one they cost a look."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from torch_npu._errors import ErrCode, prof_error
from torch_npu.profiler import _marks

__all__ = ["annotate", "mark", "mstx_range", "range_end", "range_pop", "range_push", "range_start"]

_local = threading.local()


def _checked(message: Any, domain: Any) -> None:
    for name, value in (("message", message), ("domain", domain)):
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} should be a text but got {value!r}" + prof_error(ErrCode.VALUE))


def mark(message: str, stream: Any = None, domain: str = "default") -> None:
    """A moment. Work of a stream is over when a call returns, so the moment is the same with a stream."""
    del stream
    _checked(message, domain)
    _marks.mark(message, domain)


def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
    """The beginning of a range; its number, 0 when no profile wants it."""
    del stream
    _checked(message, domain)
    return _marks.start(message, domain)


def range_end(range_id: int, domain: str = "default") -> None:
    """The end of a range; 0 and a number that was ended before do nothing."""
    if isinstance(range_id, bool) or not isinstance(range_id, int):
        raise TypeError(f"range_id should be an int but got {type(range_id).__name__}" + prof_error(ErrCode.TYPE))
    _checked("range", domain)
    _marks.stop(range_id)


def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
    """The beginning of a range inside of those that this thread pushed before; how deep it is."""
    ranges = _local.__dict__.setdefault("ranges", [])
    ranges.append(range_start(message, stream, domain))
    return len(ranges) - 1


def range_pop(domain: str = "default") -> int:
    """The end of the range that this thread pushed last; how deep it was, -1 when there is none."""
    ranges = _local.__dict__.setdefault("ranges", [])
    if not ranges:
        return -1
    range_end(ranges.pop(), domain)
    return len(ranges)


@contextmanager
def annotate(message: str, stream: Any = None, domain: str = "default") -> Iterator[int]:
    """A range for a block."""
    number = range_start(message, stream, domain)
    try:
        yield number
    finally:
        range_end(number, domain)


def mstx_range(message: str, stream: Any = None, domain: str = "default") -> Callable[[Callable[..., Any]], Any]:
    """A range for each call of a function."""

    def decorate(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            with annotate(message, stream, domain):
                return function(*args, **kwargs)

        return ranged

    return decorate
