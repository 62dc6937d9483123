"""Device memory that several processes map: what `torch.multiprocessing` hands about when a message holds an npu tensor.

The first time a storage is shared its bytes move into a memory file (memfd: it has no name, so a killed process leaves nothing
behind) and every tensor over the storage follows. Whoever maps the file owns the memory: it lasts until the last process lets go,
without counters between processes. Both count it as memory of the device, the caching allocator of neither does. As with tensors on
the CPU, writes of another thread during that first move may be lost: `x.share_memory_()` moves at a moment of your choice.
"""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

import torch

from softnpu.base.units import align_up
from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import connection
from torch_npu._runtime.devices import SLAB_LIMIT, Device, process
from torch_npu._runtime.face import torch_with_npu

_PAGE = os.sysconf("SC_PAGESIZE")


class _Mapping(NamedTuple):
    """Memory of a device with a memory file behind it."""

    descriptor: int
    length: int
    device: Device


_mappings: dict[int, _Mapping] = {}  # by address
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _take(index: int, size: int) -> int:
    """Whole chunks of addresses of a device: only those can have a file behind them."""
    wanted = max(size, SLAB_LIMIT + 1)
    address = connection._allocate(index, wanted)
    if not address:
        torch_with_npu.npu.empty_cache()
        address = connection._allocate(index, wanted)
    if not address:
        raise torch.OutOfMemoryError(
            f"NPU out of memory. Tried to share {size} bytes of npu:{index} with another process, for which they move to new "
            "memory: free tensors, or share smaller ones" + pta_error(ErrCode.MEMORY)
        )
    return address


def _map(index: int, size: int, descriptor: int) -> int:
    """The address of a memory file in this process, booked as `size` bytes of a device; the descriptor is taken over."""
    owner = process()
    address = _take(index, size)
    device, length = owner.devices[index], align_up(size, _PAGE)
    try:
        device.backend.map_at(address, length, descriptor)
    except MemoryError as error:
        connection._release(index, address)
        raise _failed(f"{size} bytes could not be mapped", error) from error
    allocation = owner.memory.atlas.find(address)
    assert allocation is not None
    with device.arena.lock:  # a small storage holds a chunk of addresses, not of memory
        device.account(address + length - allocation.end)
        allocation.size, allocation.end = size, address + length
    _C._share_connect(_release)
    _mappings[address] = _Mapping(descriptor, length, device)
    return address


def _release(address: int) -> None:
    """The last tensor over a mapping has gone. The addresses become plain memory of the device, then they are free."""
    mapping = _mappings.pop(address)
    mapping.device.backend.unmap_at(address, mapping.length)
    connection._release(mapping.device.index, address)
    os.close(mapping.descriptor)


def _failed(what: str, error: Exception) -> RuntimeError:
    return RuntimeError(
        f"npu memory cannot be shared: {what} ({error}); each shared storage takes a file descriptor, see `ulimit -n`"
        + pta_error(ErrCode.SYSCALL)
    )


def share(storage: torch.UntypedStorage) -> int:
    """Move a storage into shared memory unless it is there; the descriptor of its file, which stays this module's."""
    torch_with_npu.npu._lazy_init()  # refuses in a forked child
    with _lock:
        if not _C._share_is(storage):
            size = storage.nbytes()
            try:
                descriptor = process().devices[storage.device.index].backend.make_physical(align_up(size, _PAGE))
            except MemoryError as error:
                raise _failed(f"no memory file of {size} bytes", error) from error
            try:
                address = _map(storage.device.index, size, descriptor)
            except RuntimeError:
                os.close(descriptor)
                raise
            _C._share_move(storage, address)
        return _mappings[storage.data_ptr()].descriptor


def open_file(descriptor: int, size: int, device: int) -> torch.UntypedStorage:
    """A storage over a memory file that another process shared; the caller keeps the descriptor."""
    torch_with_npu.npu._lazy_init()
    count = torch_with_npu.npu.device_count()
    if device >= count:
        raise RuntimeError(
            f"A storage of npu:{device} arrived in a process that has {count} devices: give both processes the same "
            "ASCEND_RT_VISIBLE_DEVICES, or send x.cpu()" + pta_error(ErrCode.PARAM)
        )
    if (there := os.fstat(descriptor).st_size) < size:
        raise RuntimeError(
            f"A storage of {size} bytes was announced, its shared memory has {there}: the sender must not change it"
            + pta_error(ErrCode.PARAM)
        )
    own = os.dup(descriptor)
    try:
        return _C._share_open(_map(device, size, own), size, device)
    except RuntimeError:
        os.close(own)
        raise
