"""The device runtime of softnpu behind `torch_npu._C`: memory comes from the same devices that pyACL uses.

A segment of the caching allocator is an allocation of the device, so a tensor's `data_ptr()` is valid in pyACL, and npu-smi
counts it.
"""

from __future__ import annotations

from collections.abc import Callable

from softnpu.base.errors import NpuError
from torch_npu import _C
from torch_npu._runtime.devices import DEVICE_KINDS, process
from torch_npu._runtime.visible import usable

_KINDS = ("torch",)
alignment = 64  # of segments; PYTORCH_NPU_ALLOC_CONF=base_addr_aligned_kb raises it


def _allocate(device: int, size: int, _stream: int = 0) -> int:
    """The address of new device memory, 0 when there is none left."""
    owner = process()
    if not owner.lasting:
        owner.publish()
    try:
        return owner.memory.allocate(owner.devices[device], size, 0, "torch", align=alignment)
    except NpuError:
        return 0


def _release(_device: int, address: int, _size: int = 0, _stream: int = 0) -> None:
    process().memory.free(address, _KINDS, "device memory")


class Hooks:
    """What `torch_npu.npu`, which stands on this module, wants to be told of segments."""

    first_segment: Callable[[], None]
    out_of_memory: Callable[[int, int, int], None]


hooks = Hooks()
Allocate = Callable[[int, int, int], int]
Release = Callable[[int, int, int, int], None]
segment_source: tuple[Allocate, Release] = (_allocate, _release)  # torch_npu.npu.pools puts libraries in between


def _total(device: int) -> int:
    return process().devices[device].info.memory_bytes


def _free(device: int) -> int:
    owner = process().devices[device]
    return max(0, owner.info.memory_bytes - owner.used - owner.used_by_others())


def _configure() -> None:
    """Before the first segment."""
    hooks.first_segment()


def _out_of_memory(device: int, size: int, free: int) -> None:
    """Before the error is raised."""
    hooks.out_of_memory(device, size, free)


def _locate(address: int) -> int:
    """The device of memory that pyACL made, -1 for any other address."""
    owner = process()
    allocation = owner.memory.atlas.find(address)
    if allocation is None or not allocation.live or address >= allocation.end or allocation.kind not in DEVICE_KINDS:
        return -1
    return owner.devices.index(allocation.device)


def connect() -> None:
    """Tell the C++ side how many devices there are and where their memory comes from."""
    if not hasattr(_C, "_start"):  # what Python found is the folder of its stubs
        raise ImportError(
            "torch_npu._C is not built for this Python; in the repository: pip install --no-build-isolation --no-deps ./native/torch"
        )
    count = usable(process().settings.visible)
    _C._start(count, *segment_source, _total, _free, _configure, _out_of_memory, _locate)
