"""What the number of a stream says: which stream it is, its kind, and the memory pool that its thread allocates from.

The allocator keeps the blocks of different stream numbers apart. So a pool is a mark in the upper half of the current stream's
number: allocations under it have segments of their own, also in the threads of a backward pass, which take over the stream.
"""

from __future__ import annotations

from typing import Protocol

import torch


class Listener(Protocol):
    """Who wants to hear how streams wait for one another (`torch_npu._watch.sanitizer`)."""

    def recorded(self, event: torch.Event, stream: torch.Stream) -> None: ...

    def waits(self, event: torch.Event, stream: torch.Stream) -> None: ...

    def host_waits(self, what: torch.Event | torch.Stream | None) -> None: ...


listeners: list[Listener] = []

POOL_SHIFT = 32
SYNC_LAUNCH = 1 << 30
EXTERNAL = 1 << 31
_LOW = (1 << POOL_SHIFT) - 1
NPU_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)  # type: ignore[call-overload]


def plain(stream_id: int) -> int:
    """The number without the pool."""
    return stream_id & _LOW


def pool_of(stream_id: int) -> int:
    """The pool, 0 for the common one."""
    return stream_id >> POOL_SHIFT


def current_id(index: int) -> int:
    """The number of the current stream of a device in this thread, with its pool."""
    return torch._C._accelerator_getStream(index).stream_id


def make_current(index: int, stream_id: int, pool: int) -> None:
    """Set the current stream of a device, and with it the device."""
    marked = plain(stream_id) | pool << POOL_SHIFT
    torch._C._accelerator_setStream(torch.Stream(stream_id=marked, device_index=index, device_type=NPU_TYPE))
