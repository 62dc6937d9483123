"""What exists in the process: devices, contexts, streams, events, notifies, and which context is current in a thread."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from softnpu.base import log
from softnpu.base.config import Settings
from softnpu.base.errors import NpuError, codes
from softnpu.base.handles import HandleTable
from softnpu.runtime.device import Device, DeviceInfo, inventory, make_backend
from softnpu.runtime.memory.arena import Arena
from softnpu.runtime.memory.memory import Memory
from softnpu.runtime.streams.event import Event, Notify
from softnpu.runtime.streams.stream import Context, Stream, no_context

if TYPE_CHECKING:
    from softnpu.runtime.device import Owner


class Registry:
    """Makes the nouns of the runtime, finds them and ends them.

    `need_start` raises unless the process is started; `default_device` says which device a thread without a context gets.
    """

    def __init__(
        self,
        owner: Owner,
        memory: Memory,
        handles: HandleTable,
        need_start: Callable[[], None],
        default_device: Callable[[], int | None],
    ) -> None:
        self._owner = owner
        self._memory = memory
        self._handles = handles
        self._need_start = need_start
        self._default_device = default_device
        self.local = threading.local()  # `context`: the current one of a thread
        self.devices: list[Device] = []
        self.primary: dict[Device, Context] = {}  # the default context of a device that is set
        self._contexts: dict[Device, set[Context]] = {}
        self._event_numbers = itertools.count()
        self._arenas: dict[tuple[int, str], Arena] = {}
        self._known_devices: dict[tuple[int, DeviceInfo], Device] = {}

    # ---- devices ----------------------------------------------------------------------------------------------------

    def load_devices(self, settings: Settings) -> None:
        """The devices that the program sees, as the environment says."""
        machine = inventory(settings)
        self.devices = [self._device(index, machine[physical]) for index, physical in enumerate(settings.visible)]
        self._memory.allocator.devices = self.devices

    def _device(self, index: int, info: DeviceInfo) -> Device:
        """A device outlives acl.finalize, and its address space a change of chip: old views stay valid."""
        known = self._known_devices.get((index, info))
        if known is None:
            if (index, info.kind) not in self._arenas:
                self._arenas[index, info.kind] = Arena(self._memory.atlas, make_backend(info.kind), f"device {index}")
            known = Device(self._owner, index, info, self._arenas[index, info.kind])
            self._known_devices[index, info] = known
        return known

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
        self._need_start()
        device = self.device(index)
        with device.lock:
            self._need_start()  # another thread may have called acl.finalize while this one waited
            device.references += 1
            device.opened = True
            primary = self.primary.get(device)
            if primary is None or not primary.alive:
                primary = self.primary[device] = self._new_context(device, default=True)
            self.local.context = primary
            device.publish()
        log.log().write(log.INFO, f"device {index} set, {device.references} references", "RUNTIME", "set_device")

    def close_device(self, device: Device, force: bool) -> bool:
        """The last reference is gone: end its default context, with `force` all; whether none is left."""
        if (primary := self.primary.get(device)) is not None:
            self.end_context(primary)
            self.primary.pop(device, None)
        for context in self.contexts(device) if force else ():
            self.end_context(context)
        return not self.contexts(device)

    def streams(self, device: Device) -> list[Stream]:
        """All streams of all contexts of this process on a device."""
        return [stream for context in self.contexts(device) for stream in tuple(context.streams)]

    def settle(self, device: Device) -> None:
        """Let work that is under way end before its streams go; called without locks, since callbacks may need them."""
        for stream in self.streams(device):
            stream.settle()

    def synchronize(self, device: Device, timeout: float | None) -> None:
        """Wait for all streams of a device; raises the first error among them."""
        deadline = None if timeout is None else time.monotonic() + timeout
        streams = self.streams(device)
        for stream in streams:
            stream.refuse_inside()
        for stream in streams:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not stream.queue.synchronize(left):
                raise NpuError(
                    codes.RT_STREAM_SYNC_TIMEOUT,
                    f"stream {stream.id} of device {device.index} was not done after {timeout} s",
                    "wait longer, or see what the stream waits for",
                )
        for stream in streams:
            stream.take_error()

    def abort(self, device: Device, timeout: float | None) -> None:
        """Drop all tasks of a device that have not begun and wait for those that have."""
        for stream in self.streams(device):
            stream.abort()
        for stream in self.streams(device):
            if not stream.queue.synchronize(timeout):
                raise NpuError(codes.RT_WAIT_TIMEOUT, f"stream {stream.id} still runs a task", "wait longer")

    # ---- contexts ---------------------------------------------------------------------------------------------------

    def contexts(self, device: Device) -> tuple[Context, ...]:
        """The contexts on a device."""
        return tuple(self._contexts.get(device, ()))

    def _new_context(self, device: Device, default: bool) -> Context:
        context = Context(device, default)
        context.handle = self._handles.add("context", context)
        contexts = self._contexts.setdefault(device, set())
        contexts.add(context)
        device.contexts = len(contexts)
        return context

    def create_context(self, index: int) -> Context:
        """An explicit context, made current in the calling thread."""
        self._need_start()
        device = self.device(index)
        with device.lock:
            self._need_start()
            device.opened = True
            context = self._new_context(device, default=False)
            device.publish()
        self.local.context = context
        return context

    def destroy_context(self, context: Context) -> None:
        """`destroy_context`: let its work end, then end it."""
        for stream in tuple(context.streams):
            stream.settle()
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
        self._handles.discard(context.handle)
        device = context.device
        contexts = self._contexts.setdefault(device, set())
        contexts.discard(context)
        device.contexts = len(contexts)
        device.publish()

    def current(self) -> Context:
        """The current context of the calling thread; raises the documented code when there is none."""
        context: Context | None = getattr(self.local, "context", None)
        if context is not None and context.alive:
            return context
        self._need_start()
        index = self._default_device() if context is None else None
        if index is not None:
            self.set_device(index)
            return self.current()
        raise no_context("has no current context" if context is None else "has a current context that was destroyed")

    # ---- streams, events, notifies ----------------------------------------------------------------------------------

    def stream(self, handle: int) -> Stream:
        """The stream behind a handle, 0 being the default stream of the current context."""
        context = self.current()
        if handle == 0:
            return context.default_stream
        stream: Stream = self._handles.get("stream", handle)
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
                stream.handle = self._handles.add("stream", stream)
        return stream

    def end_stream(self, stream: Stream, wait: bool) -> None:
        """Destroy a stream."""
        self._handles.discard(stream.handle)
        stream.context.drop_stream(stream, wait)

    def create_event(self, kind: str, flag: int) -> Event:
        """An event in the current context."""
        context = self.current()
        device = context.device
        with context.open():
            if kind != "ex":
                device.count("events", +1, device.soc.max_events, codes.RT_NO_EVENT_RESOURCE)
            event = Event(context, kind, flag, next(self._event_numbers))
            event.handle = self._handles.add("event", event)
            context.events.add(event)
        return event

    def end_event(self, event: Event) -> None:
        """Destroy an event; streams that wait for it go on when its recording is reached."""
        self._handles.discard(event.handle)
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
            notify.handle = self._handles.add("notify", notify)
            context.notifies.add(notify)
        return notify

    def end_notify(self, notify: Notify) -> None:
        """Destroy a notify."""
        self._handles.discard(notify.handle)
        notify.end()
        try:
            notify.context.notifies.remove(notify)
        except KeyError:
            return
        notify.context.device.count("notifies", -1, 0, 0)
