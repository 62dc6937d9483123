"""What an exception callback can ask about a failed task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExceptionInfo:
    """A failed task by its numbers."""

    error_code: int
    task_id: int
    stream_id: int
    thread_id: int
    device_id: int
