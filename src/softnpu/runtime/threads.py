"""Threads of `acl.util.start_thread`: started, joined, and their exception kept for the join."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from softnpu.base.errors import NpuError, codes

_MAX_PARKED = 256


class UserThread(threading.Thread):
    """A thread of the program. It rests after its function until it is stopped, so that its id stays its own."""

    def __init__(self, function: Callable[..., Any], args: Any) -> None:
        super().__init__(name=f"acl-{getattr(function, '__name__', 'thread')}", daemon=True)
        self._function = function
        self._args_of_function = args
        self.failure: BaseException | None = None
        self.over = threading.Event()
        self.may_end = threading.Event()

    def run(self) -> None:
        try:
            if self._args_of_function is None:
                self._function()
            else:
                self._function(self._args_of_function)
        except BaseException as error:
            self.failure = error
        finally:
            del self._function, self._args_of_function
            self.over.set()
            self.may_end.wait()


_threads: dict[int, UserThread] = {}


def start(function: Callable[..., Any], args: Any) -> int:
    """Start a thread; its id equals `threading.get_ident()` inside it."""
    _forget_oldest()
    thread = UserThread(function, args)
    try:
        thread.start()
    except RuntimeError as error:
        raise NpuError(
            codes.RT_RESOURCE_ALLOC_FAIL,
            f"no thread could be started: {error}",
            "end threads that are no longer needed",
        ) from error
    assert thread.ident is not None
    _threads[thread.ident] = thread
    return thread.ident


def _forget_oldest() -> None:
    """Programs that never stop their threads must not collect resting ones without end."""
    resting = [ident for ident, thread in list(_threads.items()) if thread.over.is_set()]
    for ident in resting[:-_MAX_PARKED]:
        _threads.pop(ident).may_end.set()


def forget_all() -> None:
    """Let resting threads end and forget the others (tests)."""
    for thread in list(_threads.values()):
        thread.may_end.set()
    _threads.clear()


def disown_all() -> None:
    """A forked child has none of its parent's threads; their locks must not be touched."""
    _threads.clear()


def stop(ident: int) -> BaseException | None:
    """Join a thread and return the exception its function ended with."""
    thread = _threads.get(ident)
    if thread is None:
        raise NpuError(
            codes.INVALID_PARAM,
            f"{ident} is no thread of acl.util.start_thread (or it was stopped before)",
            "pass the id that start_thread returned",
        )
    if thread is threading.current_thread():
        raise NpuError(
            codes.INVALID_PARAM,
            "a thread cannot stop itself, it would wait for ever",
            "call stop_thread from another thread",
        )
    if sys.is_finalizing() and not thread.over.is_set():
        raise NpuError(
            codes.INVALID_PARAM,
            "the interpreter ends and the thread stands still, waiting for it would never end",
            "stop threads before the program ends, not in the destructor of a global object",
        )
    thread.over.wait()
    _threads.pop(ident, None)
    thread.may_end.set()
    thread.join()
    return thread.failure


def release_resting() -> None:
    """The process is finalised: threads whose function is over need their ids no longer."""
    for thread in list(_threads.values()):
        if thread.over.is_set():
            thread.may_end.set()
