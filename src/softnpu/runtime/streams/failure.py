"""What an exception callback can ask about a failed task."""

from __future__ import annotations


class ExceptionInfo:
    """A failed task by its numbers."""

    __slots__ = ("device_id", "error_code", "stream_id", "task_id", "thread_id")

    def __init__(self, error_code: int, task_id: int, stream_id: int, thread_id: int, device_id: int) -> None:
        self.error_code = error_code
        self.task_id = task_id
        self.stream_id = stream_id
        self.thread_id = thread_id
        self.device_id = device_id
