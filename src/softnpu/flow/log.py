"""The logger DATAFLOW: to stdout, with the level of ASCEND_GLOBAL_LOG_LEVEL."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

from softnpu.base.config import LogSettings

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
_NONE = logging.CRITICAL + 1
_LEVELS = (DEBUG, INFO, WARNING, ERROR, _NONE)  # by the number in the environment variable
_logger: logging.Logger | None = None


class _Stdout(logging.StreamHandler[TextIO]):
    """Writes to what stdout is at that moment; programs and tests exchange it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout


def get_logger() -> logging.Logger:
    """The logger, set up at the first question."""
    global _logger
    if _logger is None:
        logger = logging.getLogger("DATAFLOW")
        logger.propagate = False
        if not logger.handlers:
            handler = _Stdout()
            handler.setFormatter(logging.Formatter("[%(levelname)s] %(name)s(%(process)d): %(asctime)s %(message)s"))
            logger.addHandler(handler)
        logger.setLevel(_LEVELS[LogSettings().level])
        _logger = logger
    return _logger


def log(level: int, message: str, *args: Any) -> None:
    """One line at a level."""
    get_logger().log(level, message, *args)


def debug(message: str, *args: Any) -> None:
    """One line at DEBUG."""
    get_logger().debug(message, *args)


def info(message: str, *args: Any) -> None:
    """One line at INFO."""
    get_logger().info(message, *args)


def warning(message: str, *args: Any) -> None:
    """One line at WARNING."""
    get_logger().warning(message, *args)


def error(message: str, *args: Any) -> None:
    """One line at ERROR."""
    get_logger().error(message, *args)


def set_log_level(level: int) -> None:
    """Show lines from this level on."""
    get_logger().setLevel(level)


def get_log_level() -> int:
    """The level from which on lines are shown."""
    return get_logger().getEffectiveLevel()
