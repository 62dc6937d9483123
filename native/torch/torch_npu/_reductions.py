"""npu storages between processes (queues, pipes, arguments of a spawned process): by value, through shared memory.

The sender copies the storage once into shared memory, the receiver once into memory of the same device index. Unlike cuda, the two
do not share what they write afterwards: device memory belongs to one process. Tensors that share a storage and travel in one
message still share it on the other side. Arguments of a process that is being started go through its pipe: nothing would keep the
copy alive until the child has opened it.
"""

from __future__ import annotations

from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from torch_npu import _types


def rebuild_npu_storage(content: torch.UntypedStorage | bytes, device: int) -> torch.UntypedStorage:
    """The receiver's side: a storage on the device with that index."""
    host = torch.UntypedStorage.from_buffer(content, dtype=torch.uint8) if isinstance(content, bytes) else content
    count = torch.npu.device_count()
    if device >= count:
        raise RuntimeError(
            f"A storage of npu:{device} arrived in a process that has {count} devices: "
            "give both processes the same ASCEND_RT_VISIBLE_DEVICES, or send x.cpu()"
        )
    return host.npu(device)


def reduce_storage(storage: torch.UntypedStorage) -> tuple[Any, ...]:
    """What torch does, with a host copy in the place of a device's storage."""
    if storage.device.type != "npu":
        return reductions.reduce_storage(storage)
    host = storage.cpu()
    starting = get_spawning_popen() is not None
    content = torch.empty(0, dtype=torch.uint8).set_(host).numpy().tobytes() if starting else host
    return rebuild_npu_storage, (content, storage.device.index)


def _share_npu_(self: torch.UntypedStorage) -> tuple[Any, ...]:
    """A handle in the shape of cuda's for another process to open once: device, handle, bytes, offset, counter, event."""
    if self.device.type != "npu":
        raise RuntimeError(f"_share_npu_: only available on NPU, this storage is on {self.device}")
    host = self.cpu()
    manager, name, size = host._share_filename_cpu_()
    host._shared_incref()
    return self.device.index, (manager, name), size, 0, b"", 0, b"", False


def _new_shared_npu(
    device: int, handle: tuple[bytes, bytes], size: int, offset: int, *_counter_and_event: object
) -> torch.UntypedStorage:
    """Open a handle of `_share_npu_`. Counter and event have nothing to say: the handle's memory is nobody else's."""
    if offset != 0:
        raise RuntimeError(
            f"_new_shared_npu: offset {offset} cannot be: a handle holds one storage, from its first byte on"
        )
    host = torch.UntypedStorage._new_shared_filename_cpu(*handle, size)
    try:
        return rebuild_npu_storage(host, device)
    finally:
        host._shared_decref()


def _release_ipc_counter_npu(*_handle: object, **_device: object) -> None:
    """Nothing to release: a handle's memory goes with its last reader."""


def install() -> None:
    """Teach `torch.multiprocessing` the storages and the legacy types of the device."""
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
    for kind in _types.STORAGE_TYPES.values():
        ForkingPickler.register(kind, reductions.reduce_typed_storage_child)
    torch.UntypedStorage._share_npu_ = _share_npu_
    torch.UntypedStorage._new_shared_npu = staticmethod(_new_shared_npu)
    torch.UntypedStorage._release_ipc_counter_npu = staticmethod(_release_ipc_counter_npu)
