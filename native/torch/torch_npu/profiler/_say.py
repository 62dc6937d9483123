"""Lines that the profiler prints: it never stops a program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any


def say(text: str, level: str = "INFO") -> None:
    """A line with the time and the process."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"[{moment}] [{level}] [{os.getpid()}] profiler.py: {text}", flush=True)


def warn(text: str) -> None:
    """Something is left away or did not work."""
    say(text, "WARNING")


def never_raises(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose failures are said: a profile may fail, the program that is measured may not fail for it."""

    @wraps(method)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            warn(f"{method.__name__} failed: {type(error).__name__}: {error}")
            return None

    return safe
