"""The process object: owns all mutable state of the runtime. `acl.init` starts it, `acl.finalize` sweeps it."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from softnpu.base import config, log
from softnpu.base.config import Settings
from softnpu.base.errors import NpuError, codes
from softnpu.base.handles import HandleTable, words
from softnpu.base.recent import recent
from softnpu.base.units import human, plural
from softnpu.runtime import threads
from softnpu.runtime.arena import Arena
from softnpu.runtime.backends.host import HostBackend
from softnpu.runtime.board import MAX_SLOTS, SIZE, Board
from softnpu.runtime.context import Context, no_context
from softnpu.runtime.device import Device, DeviceInfo, inventory, make_backend
from softnpu.runtime.event import Event, Notify
from softnpu.runtime.init_config import InitConfig
from softnpu.runtime.memory import LASTING_KINDS, Memory
from softnpu.runtime.parts import Part, Parts
from softnpu.runtime.queue import Queue
from softnpu.runtime.reports import ReportBook
from softnpu.runtime.stream import ExceptionInfo, Stream

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
        self.memory = Memory(self.settings, HostBackend())
        self.handles = HandleTable(self.memory.explain)
        self.atlas = self.memory.atlas
        self.reports = ReportBook()
        self.local = threading.local()
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
        self._event_numbers = itertools.count()
        self._arenas: dict[tuple[int, str], Arena] = {}
        self._known_devices: dict[tuple[int, DeviceInfo], Device] = {}
        self.devices: list[Device] = []
        self._load_devices()

    def _load_devices(self) -> None:
        machine = inventory(self.settings)
        self.devices = [self._device(index, machine[physical]) for index, physical in enumerate(self.settings.visible)]
        self.memory.devices = self.devices

    def _device(self, index: int, info: DeviceInfo) -> Device:
        """A device outlives acl.finalize, and its address space a change of chip: old views stay valid."""
        known = self._known_devices.get((index, info))
        if known is None:
            if (index, info.kind) not in self._arenas:
                self._arenas[index, info.kind] = Arena(self.atlas, make_backend(info.kind), f"device {index}")
            known = Device(self, index, info, self._arenas[index, info.kind])
            self._known_devices[index, info] = known
        return known

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
            self.settings = Settings()
            self.memory.configure(self.settings)
            self._load_devices()
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
            self._settle(device.streams())
        with self.lock:
            if not self.references:
                raise NpuError(
                    codes.REPEAT_FINALIZE,
                    "acl.finalize without acl.init before it",
                    "call acl.init first, and finalize once",
                )
            leaks = self._leaks()
            self.references = 0  # from here on no other thread makes anything new
            try:
                self._sweep()
            except BaseException:  # whatever was cut short before: the next acl.init finds a clean house
                self._abandon()
                raise
        threads.release_resting()
        self._report_leaks(leaks, "acl.finalize")
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
        """What the program never gave back, on one device or at all: a line for each allocation and kind of handle."""
        if "leaks" not in self.settings.checks:
            return []
        live = [one for one in self.memory.live_allocations() if one.kind not in LASTING_KINDS]
        found = [one for one in live if device is None or one.device is device]
        kinds: dict[str, int] = {}
        for _, kind, obj in self.handles.live():
            default = getattr(obj, "default", False) or getattr(obj, "is_default", False)
            home = getattr(getattr(obj, "context", None), "device", None)
            if not default and (device is None or home is device):
                kinds[kind] = kinds.get(kind, 0) + 1
        lines = [one.describe() for one in found]
        lines += [f"{plural(count, f'{words(kind)} handle')} never destroyed" for kind, count in sorted(kinds.items())]
        lines += [line for part in self.parts.all() for line in part.leaks(device)]
        if not lines:
            return []
        return [f"{human(sum(one.size for one in found))} in {plural(len(found), 'allocation')}", *lines]

    def _report_leaks(self, leaks: list[str], place: str) -> None:
        if not leaks:
            return
        head, *lines = leaks
        for line in leaks:
            log.log().write(log.WARNING, f"leak at {place}: {line}", "RUNTIME", "leaks")
        shown = [f"  {line}" for line in lines[:50]] + ([f"  … and {len(lines) - 50} more"] if len(lines) > 50 else [])
        if "trace" not in self.settings.checks:
            shown.append("  (SOFTNPU_CHECK=leaks,trace names the lines that allocated them)")
        os.write(2, "\n".join([f"softnpu: leaks at {place}: {head}", *shown, ""]).encode())

    def _sweep(self) -> None:
        for part in self.parts.all():
            part.finalize()
        for device in self.devices:
            with device.lock:
                for context in tuple(device.contexts):
                    self.end_context(context)
                self.sweep_device(device)
                self.memory.release_all(device, "released by acl.finalize")
                device.restore()
            device.arena.trim()
        self.memory.release_all(None, "released by acl.finalize")
        self.memory.host.trim()
        for handle, kind, _ in self.handles.live():
            if kind not in SURVIVES_FINALIZE:
                self.handles.discard(handle)
        self.exception_callback = None
        self.options.clear()
        self.wait_timeout = None
        self.execute_timeout_us = 0
        self.device_limits = dict(_DEVICE_LIMITS)
        self.local = threading.local()  # no thread has a current context any more
        self.parts.clear()
        self._show(self.lasting)

    def _abandon(self) -> None:
        """Leave everything behind that a sweep could not put in order; old addresses stay mapped."""
        self.handles = HandleTable()
        self.memory = Memory(self.settings, HostBackend())
        self.atlas = self.memory.atlas
        self.local = threading.local()
        self.parts.clear()
        self._arenas.clear()
        self._known_devices.clear()
        self._show(self.lasting)
        self._load_devices()

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

    # ---- devices ----------------------------------------------------------------------------------------------------

    def device(self, index: int) -> Device:
        """The device that the program calls `index`."""
        if 0 <= index < len(self.devices):
            return self.devices[index]
        count = len(self.devices)
        valid = f"valid are 0 to {count - 1}" if count else "no device is visible"
        raise NpuError(
            codes.RT_INVALID_DEVICEID,
            f"device id {index} does not exist, {valid}",
            "see acl.rt.get_device_count and ASCEND_RT_VISIBLE_DEVICES; SOFTNPU_DEVICES=n simulates more devices",
        )

    def set_device(self, index: int) -> None:
        """Count a reference on a device and make its default context current."""
        self.need_start()
        device = self.device(index)
        with device.lock:
            self.need_start()  # another thread may have called acl.finalize while this one waited
            device.references += 1
            device.opened = True
            if device.primary is None or not device.primary.alive:
                device.primary = self._new_context(device, default=True)
            self.local.context = device.primary
            device.publish()
        log.log().write(log.INFO, f"device {index} set, {device.references} references", "RUNTIME", "set_device")

    def reset_device(self, index: int, force: bool) -> None:
        """Take a reference back; with the last one the default context and, if nothing else uses it, the memory go."""
        device = self.device(index)
        if device.references <= 1 or force:
            self._settle(device.streams())
        leaks: list[str] = []
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
            if force or all(context.default for context in device.contexts):
                leaks = self._leaks(device)  # what goes now would be gone when acl.finalize looks
            if device.primary is not None:
                self.end_context(device.primary)
                device.primary = None
            for context in tuple(device.contexts) if force else ():
                self.end_context(context)
            if not device.contexts:
                self.sweep_device(device)
                self.memory.release_all(device, f"released by acl.rt.reset_device({index})")
                device.restore()
            device.publish()
        self._report_leaks(leaks, f"acl.rt.reset_device({index})")
        log.log().write(log.INFO, f"device {index} reset", "RUNTIME", "reset_device")

    def sweep_device(self, device: Device) -> None:
        """The memory of a device goes: whoever holds some without addresses lets go."""
        for part in self.parts.all():
            part.sweep(device)

    def part(self, kind: type[PartT]) -> PartT:
        """The state that a room keeps here, by its type; made on first use, gone after `acl.finalize`."""
        return self.parts.get(kind)

    # ---- contexts, streams, events ----------------------------------------------------------------------------------

    def _new_context(self, device: Device, default: bool) -> Context:
        context = Context(device, default)
        context.handle = self.handles.add("context", context)
        device.contexts.add(context)
        return context

    def create_context(self, index: int) -> Context:
        """An explicit context, made current in the calling thread."""
        self.need_start()
        device = self.device(index)
        with device.lock:
            self.need_start()
            device.opened = True
            context = self._new_context(device, default=False)
            device.publish()
        self.local.context = context
        return context

    def _settle(self, streams: Iterable[Stream]) -> None:
        """Let work that is under way end before its streams go; called without locks, since callbacks may need them."""
        for stream in streams:
            stream.settle()

    def destroy_context(self, context: Context) -> None:
        """`destroy_context`: let its work end, then end it."""
        self._settle(tuple(context.streams))
        self.end_context(context)

    def end_context(self, context: Context) -> None:
        """End a context with its streams and events."""
        context.close()
        for stream in tuple(context.streams):
            self.end_stream(stream, wait=False)
        for event in tuple(context.events):
            self.end_event(event)
        for notify in tuple(context.notifies):
            self.end_notify(notify)
        self.handles.discard(context.handle)
        context.device.contexts.discard(context)
        context.device.publish()

    def current(self) -> Context:
        """The current context of the calling thread; raises the documented code when there is none."""
        context: Context | None = getattr(self.local, "context", None)
        if context is not None and context.alive:
            return context
        self.need_start()
        if context is None and self.config.default_device is not None:
            self.set_device(self.config.default_device)
            return self.current()
        if context is None and self.device_of_other is not None:
            self.set_device(self.device_of_other())
            return self.current()
        raise no_context("has no current context" if context is None else "has a current context that was destroyed")

    def stream(self, handle: int) -> Stream:
        """The stream behind a handle, 0 being the default stream of the current context."""
        context = self.current()
        if handle == 0:
            return context.default_stream
        stream: Stream = self.handles.get("stream", handle)
        if stream.context is not context:
            raise NpuError(
                codes.RT_STREAM_CONTEXT,
                f"stream {handle:#x} belongs to context {stream.context.handle:#x}, current is {context.handle:#x}",
                "make the stream's context current with acl.rt.set_context",
            )
        return stream

    def create_stream(self, priority: int = 0, flag: int = 0) -> Stream:
        """A stream in the current context."""
        return self.named(self.current().make_stream(priority, flag))

    def named(self, stream: Stream) -> Stream:
        """Give a stream a handle if it has none yet."""
        with stream.context.open():
            if not stream.handle:
                stream.handle = self.handles.add("stream", stream)
        return stream

    def end_stream(self, stream: Stream, wait: bool) -> None:
        """Destroy a stream."""
        self.handles.discard(stream.handle)
        stream.context.drop_stream(stream, wait)

    def create_event(self, kind: str, flag: int) -> Event:
        """An event in the current context."""
        context = self.current()
        device = context.device
        with context.open():
            if kind != "ex":
                device.count("events", +1, device.soc.max_events, codes.RT_NO_EVENT_RESOURCE)
            event = Event(context, kind, flag, next(self._event_numbers))
            event.handle = self.handles.add("event", event)
            context.events.add(event)
        return event

    def end_event(self, event: Event) -> None:
        """Destroy an event; streams that wait for it go on when its recording is reached."""
        self.handles.discard(event.handle)
        try:
            event.context.events.remove(event)
        except KeyError:  # another thread was quicker
            return
        if event.kind != "ex":
            event.context.device.count("events", -1, 0, 0)

    def create_notify(self, flag: int) -> Notify:
        """A notify in the current context."""
        context = self.current()
        device = context.device
        with context.open():
            device.count("notifies", +1, device.soc.max_notifies, codes.RT_NO_NOTIFY_RESOURCE)
            notify = Notify(context, flag, next(self._event_numbers))
            notify.handle = self.handles.add("notify", notify)
            context.notifies.add(notify)
        return notify

    def end_notify(self, notify: Notify) -> None:
        """Destroy a notify."""
        self.handles.discard(notify.handle)
        notify.end()
        try:
            notify.context.notifies.remove(notify)
        except KeyError:
            return
        notify.context.device.count("notifies", -1, 0, 0)

    def close(self) -> None:
        """The interpreter ends: stop workers, so that none stands still inside a task, or with a lock, when it is down."""
        if self.references:
            self._report_leaks(self._leaks(), "exit, acl.finalize was never called")
        queues: list[Queue] = []
        for device in self.devices:
            for context in tuple(device.contexts):
                queues += [stream.queue for stream in tuple(context.streams)]
                for stream in tuple(context.streams):
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
    found = _process
    return found if found is not None else _make()


def _make() -> Process:
    global _process
    with _making:
        if _process is None:
            made = Process()
            if _process is None:  # a destructor may have come here while this one was made
                _process = made
                atexit.register(made.close)
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
