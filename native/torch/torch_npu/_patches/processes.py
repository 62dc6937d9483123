"""npu tensors between processes (queues, pipes, arguments of a spawned process): both sides use the same memory, as with cuda.

torch's own reductions do the work; here a storage of the device learns to travel as the descriptor of its shared memory
(`_shared`), which is sent as torch sends those of CPU tensors, whatever the sharing strategy: the sender has to live until
the receiver has it, and is free of it from then on.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.multiprocessing.reductions import StorageWeakRef

from torch_npu._errors import ErrCode, pta_error
from torch_npu._patches import legacy_types
from torch_npu._runtime import shared_memory
from torch_npu.npu.streams import Event

_HANDLE = "softnpu-ipc"


def _rebuild(descriptor: int, size: int, device: int) -> torch.UntypedStorage:
    """The storage over shared memory: the one this process has already, or a new one."""
    key = reductions.fd_id(descriptor)
    storage: torch.UntypedStorage | None = reductions.storage_from_cache(torch.UntypedStorage, key)
    if storage is None:
        storage = shared_memory.open_file(descriptor, size, device)
        reductions.shared_cache[key] = StorageWeakRef(storage)
    return storage


def rebuild_npu_storage(sent: Any, size: int, device: int) -> torch.UntypedStorage:
    """The receiver's side of `reduce_storage`."""
    descriptor = sent.detach()
    try:
        return _rebuild(descriptor, size, device)
    finally:
        os.close(descriptor)


def rebuild_empty_storage(device: int) -> torch.UntypedStorage:
    """A storage without bytes has no memory to share."""
    return torch.UntypedStorage(0, device=torch.device("npu", device))


def _shared_descriptor(storage: torch.UntypedStorage) -> int:
    descriptor = shared_memory.share(storage)
    reductions.shared_cache[reductions.fd_id(descriptor)] = StorageWeakRef(storage)
    return descriptor


def reduce_storage(storage: torch.UntypedStorage) -> tuple[Any, ...]:
    """What torch does, with device memory for a storage of the device."""
    if storage.device.type != "npu":
        reduced: tuple[Any, ...] = reductions.reduce_storage(storage)
        return reduced
    if storage.nbytes() == 0:
        return rebuild_empty_storage, (storage.device.index,)
    sent = reduction.DupFd(_shared_descriptor(storage))
    return rebuild_npu_storage, (sent, storage.nbytes(), storage.device.index)


def rebuild_event(device: torch.device, handle: bytes) -> Event:
    """The receiver's side of `reduce_event`."""
    return Event.from_ipc_handle(device, handle)


def reduce_event(event: Event) -> tuple[Any, ...]:
    """An event made with `interprocess=True`; others raise."""
    return rebuild_event, (event.device, event.ipc_handle())


def _share_npu_(self: torch.UntypedStorage) -> tuple[Any, ...]:
    """A handle in the shape of cuda's: device, handle, bytes, offset, counter and its offset, event, whether to wait for it.

    Another process of the same user can open it while this storage lives, and owns the memory from then on: so there is nothing
    to count, and no event to wait for since work ends before a call returns.
    """
    if self.device.type != "npu":
        raise RuntimeError(
            f"_share_npu_: only available on NPU, this storage is on {self.device}" + pta_error(ErrCode.PARAM)
        )
    if self.nbytes() == 0:
        return self.device.index, None, 0, 0, b"", 0, b"", False
    descriptor = _shared_descriptor(self)
    handle = f"{_HANDLE}:{os.getpid()}:{descriptor}:{os.fstat(descriptor).st_ino}".encode()
    return self.device.index, handle, self.nbytes(), 0, b"", 0, b"", False


def _open_handle(handle: bytes) -> int:
    """The descriptor behind a handle, through /proc: the kernel permits that to the same user only."""
    try:
        mark, *numbers = handle.decode().split(":")
        if mark != _HANDLE:
            raise ValueError(f"it does not begin with {_HANDLE}")
        pid, number, inode = (int(text) for text in numbers)
        descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(descriptor).st_ino != inode:
            os.close(descriptor)
            raise ValueError("its memory is gone")
        return descriptor
    except (OSError, ValueError, AttributeError) as error:
        raise RuntimeError(
            f"_new_shared_npu: {handle!r} cannot be opened ({error}): pass a handle of _share_npu_ whose storage still lives"
            + pta_error(ErrCode.NOT_FOUND)
        ) from error


def _new_shared_npu(
    device: int, handle: bytes | None, size: int, offset: int, *_counter_and_event: object
) -> torch.UntypedStorage:
    """Open a handle of `_share_npu_`. Counter and event have nothing to say (see there)."""
    if offset != 0:
        raise RuntimeError(
            f"_new_shared_npu: offset {offset} cannot be: a handle holds one storage, from its first byte on"
            + pta_error(ErrCode.PARAM)
        )
    if handle is None or size == 0:
        return rebuild_empty_storage(device)
    descriptor = _open_handle(handle)
    try:
        return _rebuild(descriptor, size, device)
    finally:
        os.close(descriptor)


def _release_ipc_counter_npu(*_handle: object, **_device: object) -> None:
    """Nothing to release: whoever opened a handle owns its memory, and who did not takes none."""


def _share_memory_(original: Any) -> Any:
    """`share_memory_` that moves a storage of the device too, where torch expects devices to need no move."""

    def share_memory_(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
        if self.device.type != "npu":
            shared: torch.UntypedStorage = original(self, *args, **kwargs)
            return shared
        if self.nbytes():
            shared_memory.share(self)
        return self

    share_memory_.__doc__ = original.__doc__
    return share_memory_


def install() -> None:
    """Teach `torch.multiprocessing` the storages, events and legacy types of the device."""
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
    ForkingPickler.register(Event, reduce_event)
    for kind in legacy_types.STORAGE_TYPES.values():
        ForkingPickler.register(kind, reductions.reduce_typed_storage_child)
    untyped: Any = torch.UntypedStorage
    untyped.share_memory_ = _share_memory_(untyped.share_memory_)
    untyped._share_npu_ = _share_npu_
    untyped._new_shared_npu = staticmethod(_new_shared_npu)
    untyped._release_ipc_counter_npu = staticmethod(_release_ipc_counter_npu)
