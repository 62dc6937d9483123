"""Bodies of `acl.rt`: callbacks, exception info, last errors, time limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import ERROR, log, no_line
from softnpu.base.recent import recent
from softnpu.runtime.process import process
from softnpu.runtime.streams.exception_info import ExceptionInfo
from softnpu.runtime.streams.stream import Stream, last_task_id

_INTERVAL_US = 1000


def subscribe_report(thread_id: int, stream: Stream) -> None:
    process().reports.subscribe(thread_id, stream)


def unsubscribe_report(thread_id: int, stream: Stream) -> None:
    process().reports.unsubscribe(thread_id, stream)


def launch_callback(fn: Callable[[Any], object], user_data: Any, block_type: int, stream: Stream) -> None:
    if block_type not in (0, 1):
        raise NpuError(
            codes.INVALID_PARAM, f"callback block type {block_type} is not known", "use 0 (no block) or 1 (block)"
        )
    stream.callback(fn, user_data, bool(block_type))


def process_report(timeout_ms: int) -> None:
    if timeout_ms == 0 or timeout_ms < -1:
        raise NpuError(
            codes.INVALID_PARAM,
            f"timeout {timeout_ms} ms is not valid",
            "pass -1 to wait for ever, or a positive number",
        )
    process().reports.process(None if timeout_ms == -1 else timeout_ms / 1000)


def set_exception_info_callback(fn: Callable[[int], object] | None) -> None:
    owner = process()
    if fn is None:
        owner.exception_callback = None
        return

    def call(info: ExceptionInfo) -> None:
        handle = owner.handles.add("exception_info", info)
        try:
            fn(handle)
        except (Exception, SystemExit) as error:
            log().write(
                ERROR,
                f"the exception callback raised {type(error).__name__}: {error}",
                "ASCENDCL",
                "exception_callback",
                no_line("callback.py"),
            )
        finally:
            owner.handles.discard(handle)

    owner.exception_callback = call


def get_error_code_from_exception_info(info: ExceptionInfo) -> int:
    return info.error_code


def get_task_id_from_exception_info(info: ExceptionInfo) -> int:
    return info.task_id


def get_stream_id_from_exception_info(info: ExceptionInfo) -> int:
    return info.stream_id


def get_thread_id_from_exception_info(info: ExceptionInfo) -> int:
    return info.thread_id


def get_device_id_from_exception_info(info: ExceptionInfo) -> int:
    return info.device_id


def get_thread_last_task_id() -> int:
    process().current()
    return last_task_id()


def _level(level: int) -> None:
    if level != 0:
        raise NpuError(codes.INVALID_PARAM, f"error level {level} is not known", "use 0 (thread)")


def peek_at_last_error(level: int) -> int:
    _level(level)
    return recent.last_code(clear=False)


def get_last_error(level: int) -> int:
    _level(level)
    return recent.last_code(clear=True)


def set_op_execute_time_out(seconds: int) -> None:
    process().execute_timeout_us = seconds * 1_000_000


def set_op_execute_timeout_v2(microseconds: int) -> int:
    actual = -(-microseconds // _INTERVAL_US) * _INTERVAL_US
    process().execute_timeout_us = actual
    return actual


def get_op_timeout_interval() -> int:
    return _INTERVAL_US


def get_op_execute_timeout() -> int:
    return process().execute_timeout_us // 1000
