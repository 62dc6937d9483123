"""Virtual addresses with physical memory mapped in: reserve, map, unmap, release."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.runtime.memory.atlas import CHUNK, Allocation
from softnpu.runtime.parts import Part
from softnpu.runtime.sharing import offers

if TYPE_CHECKING:
    from softnpu.runtime.device import Device
    from softnpu.runtime.process import Process

_UNMAPPED = "no physical memory is mapped there"
_CLOSED = -1
_MOST_ADDRESSES = 16  # times the memory of the device


class Physical:
    """Physical memory without an address."""

    def __init__(self, device: Device, size: int, descriptor: int, imported: bool = False) -> None:
        self.device = device
        self.size = size
        self.descriptor = descriptor
        self.mapped = 0  # at how many places
        self.key = ""
        self.imported = imported


class Mappings(Part):
    """Which physical memory is mapped at which reserved addresses; ends both with their device."""

    def __init__(self, owner: Process) -> None:
        self._owner = owner
        self.mapped: dict[int, Physical] = {}  # by address

    @classmethod
    def of(cls, owner: Process) -> Mappings:
        return cls(owner)

    def finalize(self) -> None:
        """Unmap everything, then close all physical memory."""
        for _ in range(2):  # memory of one device may be mapped on another
            for device in self._owner.devices:
                self.sweep(device)

    def sweep(self, device: Device) -> None:
        """Unmap what is mapped on a device, and close its physical memory that is mapped nowhere."""
        for address in list(self.mapped):
            allocation = self._owner.memory.atlas.find(address)
            if allocation is not None and allocation.device is device:
                unmap(self._owner, address)
        for handle, _, memory in self._owner.handles.live("physical_mem"):
            if memory.device is device and not memory.mapped:
                self._owner.handles.discard(handle)
                drop_physical(memory)


def reserve(process: Process, size: int) -> int:
    """Reserve addresses; touching them fails until memory is mapped."""
    if size == 0:
        raise NpuError(codes.INVALID_PARAM, "size is 0", "reserve at least one granule (2 MiB)")
    device = process.current().device
    allocation = Allocation(size, "virtual", device, process.memory.allocator.origin())
    allocation.note = _UNMAPPED
    take_addresses(device, allocation, align_up(size, CHUNK))
    return allocation.address


def take_addresses(device: Device, allocation: Allocation, whole: int) -> None:
    with device.arena.lock:
        try:
            if device.reserved + whole > device.info.memory_bytes * _MOST_ADDRESSES:
                raise MemoryError(f"{device.reserved} bytes are reserved already")
            device.arena.allocate(allocation, whole, CHUNK)
        except MemoryError as error:
            raise NpuError(
                codes.RT_MEMORY_ALLOCATION, f"{whole} bytes of addresses are not to be had: {error}", "reserve less"
            ) from error
        device.reserved += whole


def _reservation(process: Process, address: int) -> Allocation:
    allocation = process.memory.atlas.find(address) if address else None
    if allocation is None or not allocation.live:
        raise process.memory.lost(address)
    if allocation.kind != "virtual" or address != allocation.address:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{address:#x} is no start of reserved addresses ({allocation.describe()})",
            "pass what reserve_mem_address returned",
        )
    return allocation


def release(process: Process, address: int) -> None:
    """Give reserved addresses back."""
    with process.lock:
        allocation = _reservation(process, address)
        if not allocation.note:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"physical memory is still mapped at {address:#x}",
                "call acl.rt.unmap_mem first",
            )
        allocation.note = ""
        process.memory.release(allocation)


def make_physical(process: Process, device: Device, size: int) -> int:
    """Physical memory of a device; counts as used."""
    if size == 0 or size % CHUNK:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{size} bytes are no multiple of the granularity of {CHUNK}",
            "see acl.rt.mem_get_allocation_granularity",
        )
    process.part(Mappings)  # which closes it when the device goes
    with device.arena.lock:
        process.memory.allocator.check_room(device, size)
        try:
            descriptor = device.backend.make_physical(size)
        except MemoryError as error:
            raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
        device.physical += size
        device.account(size)
    return process.handles.add("physical_mem", Physical(device, size, descriptor))


def free_physical(process: Process, handle: int) -> None:
    """Free physical memory that is mapped nowhere."""
    with process.lock:
        memory: Physical = process.handles.get("physical_mem", handle)
        if memory.mapped:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"the {memory.size} bytes of physical memory are still mapped at {memory.mapped} place(s)",
                "call acl.rt.unmap_mem first",
            )
        process.handles.remove("physical_mem", handle)
    drop_physical(memory)


def drop_physical(memory: Physical) -> None:
    """End physical memory (also used when the process is finalised)."""
    if memory.key:
        offers.record(memory.key).unlink(missing_ok=True)
    if not memory.imported:
        with memory.device.arena.lock:
            memory.device.physical -= memory.size
            memory.device.account(-memory.size)
    descriptor, memory.descriptor = memory.descriptor, _CLOSED
    os.close(descriptor)


def map_memory(process: Process, address: int, size: int, offset: int, memory: Physical, flags: int) -> None:
    """Put physical memory under reserved addresses."""
    allocation = _reservation(process, address)
    if offset or flags:
        raise NpuError(codes.INVALID_PARAM, f"offset {offset} and flags {flags} are reserved", "pass 0 for both")
    whole = allocation.end - allocation.address
    if size != whole or size > memory.size:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{size} bytes cannot be mapped: {memory.size} are there, {whole} are reserved",
            "map the whole reservation, with physical memory of the same size",
        )
    if memory.device is not allocation.device and memory.device.index not in allocation.device.peers:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"the memory is of device {memory.device.index}, the addresses of device {allocation.device.index}",
            "reserve and allocate on the same device",
        )
    with process.lock:
        if not allocation.note or not allocation.live or memory.descriptor == _CLOSED:
            raise NpuError(
                codes.RT_PARAM_INVALID, f"memory is mapped at {address:#x} already", "call acl.rt.unmap_mem first"
            )
        try:
            memory.device.backend.map_at(address, size, memory.descriptor)
        except MemoryError as error:
            raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "unmap memory first") from error
        memory.mapped += 1
        allocation.note = ""
        process.part(Mappings).mapped[address] = memory


def unmap(process: Process, address: int) -> None:
    """Take physical memory away from reserved addresses."""
    with process.lock:
        allocation = _reservation(process, address)
        memory = process.part(Mappings).mapped.pop(address, None)
        if memory is None:
            raise NpuError(
                codes.RT_PARAM_INVALID, f"nothing is mapped at {address:#x}", "map memory with acl.rt.map_mem first"
            )
        allocation.note = _UNMAPPED
        memory.device.backend.unmap_at(address, allocation.end - address)
        memory.mapped -= 1
