"""The logger of functions inside nodes: two kinds of lines, and a limit so that a busy node does not drown the rest."""

from __future__ import annotations

import enum
import os
import time
from typing import Any

from softnpu.flow import log


class FlowFuncLogType(enum.IntEnum):
    """Lines for debugging, and lines about the run."""

    DEBUG_LOG = 0
    RUN_LOG = 1


class FlowFuncLogLevel(enum.IntEnum):
    """How serious a line is."""

    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3


_LEVELS = {
    FlowFuncLogLevel.DEBUG: log.DEBUG,
    FlowFuncLogLevel.INFO: log.INFO,
    FlowFuncLogLevel.WARN: log.WARNING,
    FlowFuncLogLevel.ERROR: log.ERROR,
}


class _Bucket:
    """So many lines per second, and some more at once; what is left out is counted."""

    def __init__(self, rate: int, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left = float(burst)
        self._at = time.monotonic()
        self.dropped = 0

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            self.dropped += 1
            return False
        self._left -= 1
        return True


class FlowFuncLogger:
    """`%` formatting; arguments that do not fit are left out instead of raising."""

    def __init__(self) -> None:
        self._buckets = {
            "info": _Bucket(100, 1000),
            "warn": _Bucket(50, 400),
            "error": _Bucket(50, 400),
            "run": _Bucket(50, 400),
        }

    def get_log_header(self) -> str:
        """What stands before a line."""
        return f"[pid {os.getpid()}]"

    def is_log_enable(self, log_type: Any, log_level: Any) -> bool:
        """Whether such a line would be written; False for anything that is no type or level."""
        if not isinstance(log_type, FlowFuncLogType) or not isinstance(log_level, FlowFuncLogLevel):
            return False
        return log_type is FlowFuncLogType.RUN_LOG or log.get_log_level() <= _LEVELS[log_level]

    def _write(self, level: int, bucket: str, message: Any, args: tuple[Any, ...], run: bool = False) -> None:
        logger = log.get_logger()
        if not run and not logger.isEnabledFor(level):
            return
        limit = self._buckets.get(bucket)
        if limit is not None and not limit.take():
            return
        try:
            text = str(message) % args if args else str(message)
        except (TypeError, ValueError):
            text = str(message)
        if limit is not None and limit.dropped:
            text += f" ({limit.dropped} lines before this one were left out)"
            limit.dropped = 0
        if run:
            logger.handle(logger.makeRecord(logger.name, level, "", 0, text, (), None))
        else:
            logger.log(level, "%s", text)

    def debug(self, message: Any, *args: Any) -> None:
        """A line for debugging."""
        self._write(log.DEBUG, "", message, args)

    def info(self, message: Any, *args: Any) -> None:
        """A line for information."""
        self._write(log.INFO, "info", message, args)

    def warn(self, message: Any, *args: Any) -> None:
        """Something to look at."""
        self._write(log.WARNING, "warn", message, args)

    def error(self, message: Any, *args: Any) -> None:
        """Something failed."""
        self._write(log.ERROR, "error", message, args)

    def run_info(self, message: Any, *args: Any) -> None:
        """A line about the run, whatever the level."""
        self._write(log.INFO, "run", message, args, run=True)

    def run_error(self, message: Any, *args: Any) -> None:
        """A failure of the run, whatever the level."""
        self._write(log.ERROR, "run", message, args, run=True)

    event = run_info


logger = FlowFuncLogger()
