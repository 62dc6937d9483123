"""The logger DATAFLOW."""

from softnpu.flow.log import (
    DEBUG,
    ERROR,
    INFO,
    WARNING,
    debug,
    error,
    get_log_level,
    get_logger,
    info,
    log,
    set_log_level,
    warning,
)

__all__ = [
    "DEBUG",
    "ERROR",
    "INFO",
    "WARNING",
    "debug",
    "error",
    "get_log_level",
    "get_logger",
    "info",
    "log",
    "set_log_level",
    "warning",
]
