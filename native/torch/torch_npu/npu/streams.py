"""Streams and events. Work is over when a call returns, so a stream is a name and an event a moment."""

from __future__ import annotations

import ctypes
import itertools
import struct
from typing import Any, Self

import torch

from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import stream_ids as ids
from torch_npu.npu._lazy import _lazy_init
from torch_npu.npu.device import device as device_context
from torch_npu.npu.utils import known_index

_HANDLE = struct.Struct("<8sq48x")  # 64 bytes as on CUDA: a mark, the moment of recording
_MARK = b"softnpu1"


class Stream(torch.Stream):
    """A queue of work of a device; a torch.Stream that also knows the names of torch.npu."""

    native_handle: int

    def __new__(cls, device: Any = None, priority: int = 0, **known: int) -> Self:
        _lazy_init()
        if known:  # an existing one, by stream_id, device_index and device_type
            return super().__new__(cls, **known)
        return super().__new__(cls, device=torch.device("npu", known_index(device)), priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        """Let later work here wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Let later work here wait for what another stream has now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override]
        """Record an event here, a new one if none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work is done."""
        return super().query()

    def synchronize(self) -> None:
        """Wait until all work is done."""
        super().synchronize()
        for listener in ids.listeners:
            listener.host_waits(self)

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Mark the stream as one that prepares data. The mark is kept; the host needs no such hint."""
        self.is_data_preprocess_stream = is_data_preprocess_stream

    @property
    def npu_stream(self) -> int:
        """The handle."""
        return self.native_handle

    @property
    def priority(self) -> int:
        """0, or less for one that goes first."""
        return _C._stream_priority(self.stream_id & ~(ids.SYNC_LAUNCH | ids.EXTERNAL))

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return 0, -1

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    def __eq__(self, other: object) -> bool:
        return torch.Stream.__eq__(self, other) if isinstance(other, torch.Stream) else False

    def __hash__(self) -> int:
        return hash((self.npu_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<torch_npu.npu.{type(self).__name__} device={self.device} npu_stream={self.npu_stream:#x}>"


class SyncLaunchStream(Stream):
    """A stream without task queue: nothing is queued here anyway."""

    def __new__(cls, device: Any = None, priority: int = 0, **known: int) -> Self:
        if known:
            return super().__new__(cls, **known)
        base = Stream(device, priority)
        marked = base.stream_id | ids.SYNC_LAUNCH
        return super().__new__(cls, stream_id=marked, device_index=base.device_index, device_type=ids.NPU_TYPE)


_external_numbers = itertools.count(1)
_external_handles: dict[int, int] = {}


class ExternalStream(Stream):
    """A stream that pyACL made. PyTorch may only make it current; it belongs to who made it."""

    def __new__(cls, stream_ptr: int = 0, device: Any = None, **known: int) -> Self:
        if known:
            return super().__new__(cls, **known)
        known_id = next((number for number, handle in _external_handles.items() if handle == stream_ptr), None)
        stream_id = known_id or ids.EXTERNAL | next(_external_numbers)
        _external_handles[stream_id] = int(stream_ptr)
        return super().__new__(cls, stream_id=stream_id, device_index=known_index(device), device_type=ids.NPU_TYPE)

    @property
    def npu_stream(self) -> int:
        """The handle that was given."""
        return _external_handles[self.stream_id]

    def _refuse(self, what: str) -> None:
        raise RuntimeError(
            f"ExternalStream does not support {what}: call acl.rt on the stream {self.npu_stream:#x} itself"
            + pta_error(ErrCode.NOT_SUPPORT)
        )

    def query(self) -> bool:
        self._refuse("query")
        return False

    def synchronize(self) -> None:
        self._refuse("synchronize")

    def wait_event(self, event: torch.Event) -> None:
        self._refuse(f"wait_event ({event!r})")

    def wait_stream(self, stream: torch.Stream) -> None:
        self._refuse(f"wait_stream ({stream!r})")

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override]
        self._refuse("record_event")
        return event or Event()


class Event(torch.Event):
    """A moment in a stream; a torch.Event that also knows the names of torch.npu."""

    _timing: bool
    _interprocess: bool

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Self:
        event = super().__new__(cls, "npu", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)
        event._timing, event._interprocess = enable_timing, interprocess
        return event

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the moment in a stream, the current one if none is given."""
        target = self._checked(stream, "record")
        super().record(target)
        for listener in ids.listeners:
            listener.recorded(self, target)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Let later work of a stream wait for this."""
        target = self._checked(stream, "wait")
        super().wait(target)
        for listener in ids.listeners:
            listener.waits(self, target)

    def synchronize(self) -> None:
        """Wait until the event has happened."""
        super().synchronize()
        for listener in ids.listeners:
            listener.host_waits(self)

    @staticmethod
    def _checked(stream: torch.Stream | None, what: str) -> torch.Stream:
        if isinstance(stream, ExternalStream):
            stream._refuse(f"event {what}")
        return current_stream() if stream is None else stream

    @property
    def npu_event(self) -> int:
        """The handle, 0 before the first recording."""
        return self.event_id

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_event)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds between two recorded events."""
        if not (self._timing and getattr(end_event, "_timing", True)):
            raise RuntimeError(
                "Both events must be created with argument 'enable_timing=True'." + pta_error(ErrCode.PARAM)
            )
        return (_moment(end_event) - _moment(self)) / 1e6

    def recorded_time(self) -> int:
        """When it was recorded, in microseconds of the machine's steady clock."""
        return _moment(self) // 1000

    def ipc_handle(self) -> bytes:
        """What another process needs to know the event."""
        if not self._interprocess or self._timing:
            raise RuntimeError(
                "ipc_handle needs an event created with interprocess=True and enable_timing=False"
                + pta_error(ErrCode.PARAM)
            )
        if not self.npu_event:
            self.record()
        return _HANDLE.pack(_MARK, _moment(self))

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """The event of another process. What it marks is over, since work ends before a call returns: so is this event."""
        if len(handle) != _HANDLE.size or _HANDLE.unpack(handle)[0] != _MARK:
            raise RuntimeError("this is no handle of Event.ipc_handle()" + pta_error(ErrCode.PARAM))
        event = cls(interprocess=True)
        event.record(current_stream(device))
        return event

    def __repr__(self) -> str:
        name = f"torch_npu.npu.{type(self).__name__}"
        return f"<{name} {self.npu_event:#x}>" if self.npu_event else f"<{name} uninitialized>"


class ExternalEvent(Event):
    """An event that may be waited for before it is recorded. Here such a wait does not hold anything up: work runs in the
    order in which the program calls it."""

    def __new__(cls) -> Self:
        return super().__new__(cls)

    def reset(self, stream: torch.Stream | None = None) -> None:
        """Make it unrecorded for later waits of a stream. They do not hold up work here, so only the stream is checked."""
        self._checked(stream, "reset")


def _moment(event: torch.Event) -> int:
    """Nanoseconds of the steady clock: the first word of what csrc/device/guard.cpp keeps for an event."""
    if not event.event_id:
        raise RuntimeError("Both events must be recorded before calculating elapsed time." + pta_error(ErrCode.PARAM))
    return ctypes.c_int64.from_address(event.event_id).value


def _named(index: int, stream_id: int) -> Stream:
    """The stream of torch.npu with this number, whatever pool is in force."""
    number = ids.plain(stream_id)
    kind = ExternalStream if number in _external_handles else SyncLaunchStream if number & ids.SYNC_LAUNCH else Stream
    return kind(stream_id=number, device_index=index, device_type=ids.NPU_TYPE)


def current_stream(device: Any = None) -> Stream:
    """The stream in use on a device in this thread."""
    index = known_index(device)
    return _named(index, ids.current_id(index))


def default_stream(device: Any = None) -> Stream:
    """The stream that is in use before any other is set."""
    return _named(known_index(device), 0)


def set_stream(stream: torch.Stream | None) -> None:
    """Use a stream, and its device, in this thread; the memory pool stays."""
    if stream is None:
        return
    _lazy_init()
    index = stream.device_index
    ids.make_current(index, stream.stream_id, ids.pool_of(ids.current_id(index)))


set_stream._torchdynamo_disable = True  # type: ignore[attr-defined]  # a graph of torch.compile ends before it (torch_npu/_inductor/registration.py)


class StreamContext:
    """A stream, and its device, inside a `with` block; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self.idx = None if stream is None else stream.device_index
        self.src_prev_stream: Stream | None = None
        self.dst_prev_stream: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self.src_prev_stream = current_stream()
        if self.src_prev_stream.device_index != self.stream.device_index:
            with device_context(self.stream.device):
                self.dst_prev_stream = current_stream()
        set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is None:
            return
        set_stream(self.dst_prev_stream)
        set_stream(self.src_prev_stream)


def stream(stream: torch.Stream | None) -> StreamContext:
    """`with torch.npu.stream(s):`"""
    return StreamContext(stream)


def erase_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Undo `tensor.record_stream(stream)`: the tensor's memory need not wait for that stream any more."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"tensor should be a torch.Tensor but got {type(tensor).__name__}" + pta_error(ErrCode.TYPE))
    if not isinstance(stream, torch.Stream):
        raise TypeError(
            f"stream should be a torch.npu.Stream but got {type(stream).__name__}" + pta_error(ErrCode.TYPE)
        )
    if tensor.device.type != "npu":
        raise RuntimeError(f"tensor should be on npu but it is on {tensor.device}" + pta_error(ErrCode.PARAM))
    if isinstance(stream, ExternalStream):
        stream._refuse("erase_stream")
    _C._erase_stream(tensor, ids.plain(stream.stream_id))
