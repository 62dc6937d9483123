"""The process object: owns all mutable state of the runtime. `acl.init` starts it, `acl.finalize` sweeps it."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from softnpu.base import config, log
from softnpu.base.config import Settings
from softnpu.base.errors import NpuError, codes
from softnpu.base.handles import HandleTable
from softnpu.base.recent import recent
from softnpu.runtime import leaks, threads
from softnpu.runtime.backends.host import HostBackend
from softnpu.runtime.board import MAX_SLOTS, SIZE, Board
from softnpu.runtime.device import Device
from softnpu.runtime.init_config import InitConfig
from softnpu.runtime.memory.memory import Memory
from softnpu.runtime.parts import Part, Parts
from softnpu.runtime.registry import Registry
from softnpu.runtime.streams.failure import ExceptionInfo
from softnpu.runtime.streams.queue import Queue
from softnpu.runtime.streams.reports import ReportBook

# Descriptions and buffers are plain bookkeeping: destroying them after finalize is common in destructors and harmless.
SURVIVES_FINALIZE = frozenset(
    {
        *("tensor_desc", "data_buffer", "dataset"),
        *("channel_desc", "pic_desc", "batch_pic_desc", "stream_desc"),
        *("roi_config", "resize_config", "border_config", "jpege_config"),
    }
)
PartT = TypeVar("PartT", bound=Part)
_EXIT_SECONDS = 0.5
_DEVICE_LIMITS = {0: 1152, 1: 1024, 2: 32768, 3: 32768, 4: 2 << 20}  # aclrtDeviceLimit → default


class Process:
    """State of the runtime in this operating-system process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.settings = Settings()
        self.reports = ReportBook()
        self.lock = threading.RLock()
        self.references = 0
        self.lasting = False  # another face holds memory that acl.finalize leaves alone
        self.device_of_other: Callable[[], int] | None = None  # the device that another face uses in the calling thread
        self.started_by_other = False
        self.was_started = False
        self.config = InitConfig()
        self.exception_callback: Callable[[ExceptionInfo], None] | None = None
        self.options: dict[int, int] = {}
        self.wait_timeout: float | None = None
        self.execute_timeout_us = 0
        self.device_limits = dict(_DEVICE_LIMITS)
        self.parts = Parts(self)
        self.board = _private_board()  # published from acl.init on
        self._furnish()

    def _furnish(self) -> None:
        """Memory, handles and what they stand for: empty, with the devices of the settings."""
        self.memory = Memory(self.settings, HostBackend())
        self.handles = HandleTable(self.memory.explain)
        self.registry = Registry(self, self.memory, self.handles, self.need_start, self._default_device)
        # Bound once: almost every call asks for one of these.
        self.current, self.stream, self.device = self.registry.current, self.registry.stream, self.registry.device
        self.registry.load_devices(self.settings)

    @property
    def devices(self) -> list[Device]:
        """The devices that the program sees."""
        return self.registry.devices

    def part(self, kind: type[PartT]) -> PartT:
        """The state that a room keeps here, by its type; made on first use, gone after `acl.finalize`."""
        return self.parts.get(kind)

    # ---- life cycle -------------------------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether `acl.init` is in force."""
        return self.references > 0

    def start(self, config_path: str | None) -> None:
        """`acl.init`: read the configuration and the environment; a second call only counts a reference."""
        with self.lock:
            if self.references and not self.started_by_other:
                self.references += 1
                raise NpuError(
                    codes.REPEAT_INITIALIZE,
                    "acl.init was called already; the first configuration stays in force",
                    "call acl.init once per process; going on is safe",
                )
            wanted = InitConfig.read(config_path)
            if self.was_started and wanted != self.config:
                raise NpuError(
                    codes.INVALID_PARAM,
                    "acl.init after acl.finalize was given another configuration",
                    "use the configuration of the first acl.init",
                )
            log.reset()
            self.adopt(Settings())
            if wanted.default_device is not None:
                self._check_default_device(wanted.default_device)
            self._show(True)
            self.config = wanted
            recent.per_process = wanted.err_msg_per_process
            self.references = 1
            self.was_started = True
            self.started_by_other = False
        wanted.warn_about_missing()
        chip = f"{len(self.devices)} x {self.settings.soc}" if self.devices else "no visible device"
        log.log().write(
            log.INFO,
            f"initialised: {chip}, checks: {', '.join(sorted(self.settings.checks)) or 'default'}",
            "ASCENDCL",
            "init",
        )

    def adopt(self, settings: Settings) -> None:
        """Take over what the environment says now, and its devices."""
        self.settings = settings
        self.memory.configure(settings)
        self.registry.load_devices(settings)

    def publish(self) -> None:
        """Another face uses the devices: other processes shall see that, with or without acl.init."""
        with self.lock:
            self.lasting = True
            if not self.references:
                self._show(True)

    def _show(self, publicly: bool) -> None:
        """Put up a new board, and on it what the devices hold."""
        self.board.close()
        self.board = Board.open(config.runtime_dir(), self.settings.visible) if publicly else _private_board()
        for device in self.devices:
            device.account(0)

    def _check_default_device(self, index: int) -> None:
        try:
            self.device(index)
        except NpuError as error:
            raise NpuError(
                codes.FAILURE, f"the default device of the configuration cannot be set: {error.text}", error.remedy
            ) from error

    def stop(self) -> None:
        """`acl.finalize`: let work end, report leaks if asked, then end streams, contexts and memory."""
        for device in self.devices:
            self.registry.settle(device)
        with self.lock:
            if not self.references:
                raise NpuError(
                    codes.REPEAT_FINALIZE,
                    "acl.finalize without acl.init before it",
                    "call acl.init first, and finalize once",
                )
            leaked = self._leaks()
            self.references = 0  # from here on no other thread makes anything new
            try:
                self._sweep()
            except BaseException:  # whatever was cut short before: the next acl.init finds a clean house
                self._abandon()
                raise
        threads.release_resting()
        self._report(leaked, "acl.finalize")
        log.log().write(log.INFO, "finalised", "ASCENDCL", "finalize")

    def stop_reference(self) -> int:
        """`acl.finalize_reference`: lower the count of `acl.init`; the real end comes with the last one."""
        with self.lock:
            if self.references > 1:
                self.references -= 1
                return self.references
        self.stop()
        return 0

    def _leaks(self, device: Device | None = None) -> list[str]:
        """What the program never gave back, on one device or at all, if that is to be told."""
        if "leaks" not in self.settings.checks:
            return []
        return leaks.find(self.memory, self.handles, self.parts, device)

    def _report(self, leaked: list[str], occasion: str) -> None:
        leaks.report(leaked, occasion, traced="trace" in self.settings.checks)

    def _sweep(self) -> None:
        for part in self.parts.all():
            part.finalize()
        for device in self.devices:
            with device.lock:
                for context in self.registry.contexts(device):
                    self.registry.end_context(context)
                self.registry.primary.pop(device, None)
                self.sweep_device(device)
                self.memory.release_all(device, "released by acl.finalize")
                device.restore()
            device.arena.trim()
        self.memory.release_all(None, "released by acl.finalize")
        self.memory.allocator.host.trim()
        for handle, kind, _ in self.handles.live():
            if kind not in SURVIVES_FINALIZE:
                self.handles.discard(handle)
        self.exception_callback = None
        self.options.clear()
        self.wait_timeout = None
        self.execute_timeout_us = 0
        self.device_limits = dict(_DEVICE_LIMITS)
        self.registry.local = threading.local()  # no thread has a current context any more
        self.parts.clear()
        self._show(self.lasting)

    def _abandon(self) -> None:
        """Leave everything behind that a sweep could not put in order; old addresses stay mapped."""
        self._furnish()
        self.parts.clear()
        self._show(self.lasting)

    def need_start(self) -> None:
        """Raise unless `acl.init` is in force, or another face has the devices in use: then pyACL works beside it."""
        if not self.references:
            if self.device_of_other is not None and not self.was_started:
                self._start_beside()
                return
            done = "acl.finalize was called" if self.was_started else "acl.init was not called"
            raise NpuError(codes.UNINITIALIZE, done, "call acl.init first")

    def _start_beside(self) -> None:
        """Begin without `acl.init`, which may still come, with its configuration."""
        with self.lock:
            if not self.references:
                self.start(None)
                self.started_by_other = True

    def _default_device(self) -> int | None:
        """The device for a thread that has no current context, if there is one."""
        if self.config.default_device is not None:
            return self.config.default_device
        return self.device_of_other() if self.device_of_other is not None else None

    def reset_device(self, index: int, force: bool) -> None:
        """Take a reference back; with the last one the default context and, if nothing else uses it, the memory go."""
        device = self.device(index)
        if device.references <= 1 or force:
            self.registry.settle(device)
        leaked: list[str] = []
        with device.lock:
            if not device.references and not device.opened:
                self.need_start()
                raise NpuError(
                    codes.RT_INVALID_DEVICEID,
                    f"device {index} is not in use, reset_device was called more often than set_device",
                    "pair every set_device with one reset_device",
                )
            device.references = 0 if force else max(0, device.references - 1)
            if device.references:
                return
            device.opened = False
            if force or all(context.default for context in self.registry.contexts(device)):
                leaked = self._leaks(device)  # what goes now would be gone when acl.finalize looks
            if self.registry.close_device(device, force):
                self.sweep_device(device)
                self.memory.release_all(device, f"released by acl.rt.reset_device({index})")
                device.restore()
            device.publish()
        self._report(leaked, f"acl.rt.reset_device({index})")
        log.log().write(log.INFO, f"device {index} reset", "RUNTIME", "reset_device")

    def sweep_device(self, device: Device) -> None:
        """The memory of a device goes: whoever holds some without addresses lets go."""
        for part in self.parts.all():
            part.sweep(device)

    def close(self) -> None:
        """The interpreter ends: stop workers, so that none stands still inside a task, or with a lock, when it is down."""
        if self.references:
            self._report(self._leaks(), "exit, acl.finalize was never called")
        queues: list[Queue] = []
        for device in self.devices:
            for stream in self.registry.streams(device):
                queues.append(stream.queue)
                stream.abort()
                stream.queue.close()
        deadline = time.monotonic() + _EXIT_SECONDS
        for queue in queues:
            queue.join(max(0.0, deadline - time.monotonic()))
        self.board.close()


def _private_board() -> Board:
    """A board that nobody else sees."""
    return Board(memoryview(bytearray(SIZE)).cast("Q"), MAX_SLOTS, None, 0)


_process: Process | None = None
_making = threading.RLock()


def process() -> Process:
    """The process object, made on first use."""
    existing = _process
    return existing if existing is not None else _make()


def _make() -> Process:
    global _process
    with _making:
        if _process is None:
            new = Process()
            if _process is None:  # a destructor may have come here while this one was made
                _process = new
                atexit.register(new.close)
        return _process


def reset() -> None:
    """Forget everything (tests): the next call makes a new process object."""
    global _process
    with _making:
        old, _process = _process, None
    if old is not None:
        if old.started:
            old.stop()
        atexit.unregister(old.close)
        old.close()
    threads.forget_all()
    recent.clear()
    log.reset()


def _after_fork() -> None:
    """A forked child has no workers and must not write its parent's board: it begins anew and calls `acl.init` itself."""
    global _process, _making
    if _process is not None:
        atexit.unregister(_process.close)
    _process = None
    _making = threading.RLock()
    threads.disown_all()


os.register_at_fork(after_in_child=_after_fork)
