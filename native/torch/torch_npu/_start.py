"""The device runtime of softnpu behind `torch_npu._C`: memory comes from the same devices that pyACL uses.

A segment of the caching allocator is an allocation of the device, so a tensor's `data_ptr()` is valid in pyACL, and npu-smi
counts it.
"""

from __future__ import annotations

from softnpu.base.errors import NpuError
from softnpu.runtime.process import process
from torch_npu import _C

_KINDS = ("torch",)


def _allocate(device: int, size: int) -> int:
    """The address of new device memory, 0 when there is none left."""
    owner = process()
    if not owner.lasting:
        owner.publish()
    try:
        return owner.memory.allocate(owner.devices[device], size, 0, "torch")
    except NpuError:
        return 0


def _release(_device: int, address: int) -> None:
    process().memory.free(address, _KINDS, "device memory")


def _total(device: int) -> int:
    return process().devices[device].info.memory_bytes


def _free(device: int) -> int:
    one = process().devices[device]
    return max(0, one.info.memory_bytes - one.used - one.used_by_others())


def connect() -> None:
    """Tell the C++ side how many devices there are and where their memory comes from."""
    _C._start(len(process().devices), _allocate, _release, _total, _free)
