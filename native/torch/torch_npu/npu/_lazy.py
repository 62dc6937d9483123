"""Lazy initialisation: the runtime is used from the first tensor on, and never in a child forked after that."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable

from softnpu.base.config import Settings
from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import connection
from torch_npu._runtime.devices import process
from torch_npu._runtime.visible import usable


class DeferredNpuCallError(Exception):
    """A call that was queued before initialisation failed when its turn came."""


class _State:
    """What this process knows of its initialisation."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.initialized = False
        self.bad_fork = False
        self.running = threading.local()  # queued calls may come back here
        self.queue: list[tuple[Callable[[], object], traceback.StackSummary, bool]] = []


_state = _State()


def _after_fork() -> None:
    """The child of an initialised process must not go on with its parent's devices."""
    _state.lock = threading.RLock()
    _state.running = threading.local()
    if _state.initialized:
        _state.initialized = False
        _state.bad_fork = True


os.register_at_fork(after_in_child=_after_fork)


def is_initialized() -> bool:
    """Whether the runtime is in use in this process."""
    return _state.initialized and not _state.bad_fork


def _is_in_bad_fork() -> bool:
    return _state.bad_fork


def init() -> None:
    """Initialise now instead of at the first use."""
    _lazy_init()


def visible_count() -> int:
    """How many devices the environment allows: it may still change before initialisation."""
    return _C._get_device_count() if _state.initialized else usable(Settings().visible)


def _reload_devices() -> None:
    """Take the devices of the environment as it is now, unless pyACL is at work with those of before."""
    owner, wanted = process(), Settings()
    if not owner.started and wanted.visible != owner.settings.visible:
        owner.adopt(wanted)
    if usable(owner.settings.visible) != _C._get_device_count():
        connection.connect()


def _need_device() -> None:
    if _C._get_device_count() == 0:
        raise RuntimeError(
            "No NPU devices are available: ASCEND_RT_VISIBLE_DEVICES leaves none visible; unset it, or name devices that "
            "there are, such as ASCEND_RT_VISIBLE_DEVICES=0" + pta_error(ErrCode.UNAVAIL)
        )


def _lazy_init() -> None:
    """Initialise once, then run what was queued."""
    if _state.initialized or getattr(_state.running, "inside", False):
        return
    with _state.lock:
        if _state.initialized:  # by another thread meanwhile
            return  # type: ignore[unreachable]
        if _state.bad_fork:
            raise RuntimeError(
                "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the "
                "'spawn' start method" + pta_error(ErrCode.INTERNAL)
            )
        _state.running.inside = True
        try:
            _reload_devices()
            _need_device()
            _run_queue()
            _state.initialized = True
        finally:
            _state.running.inside = False
    _C._initialise_context()
    process().device_of_other = _C._get_device


def _run_queue() -> None:
    while _state.queue:
        call, origin, _ = _state.queue.pop(0)
        try:
            call()
        except Exception as error:
            raise DeferredNpuCallError(
                f"NPU call failed lazily at initialization with error: {error}\n\n"
                f"NPU call was originally invoked at:\n\n{''.join(reversed(origin.format()))}"
                + pta_error(ErrCode.INTERNAL)
            ) from error


def _lazy_call(callable: Callable[[], object], *, seed_all: bool = False) -> None:
    """Call now, or when the runtime is initialised. A seed for all devices replaces such seeds queued before it."""
    with _state.lock:
        if _state.initialized or getattr(_state.running, "inside", False):
            callable()
            return
        if seed_all:
            _state.queue[:] = [entry for entry in _state.queue if not entry[2]]
        origin = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe(1)), limit=8, lookup_lines=False)
        _state.queue.append((callable, origin, seed_all))
