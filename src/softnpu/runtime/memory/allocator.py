"""Who gives memory out: the allocation rules of the manual, limits of devices and machine, freeing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from softnpu.base import callsite
from softnpu.base.errors import NpuError, codes
from softnpu.base.units import human, machine_memory
from softnpu.runtime.backends.base import Backend
from softnpu.runtime.memory.arena import Arena
from softnpu.runtime.memory.atlas import CHUNK, Allocation, Slab
from softnpu.runtime.memory.kinds import COUNTED_KINDS, FREED_BY, LASTING_KINDS
from softnpu.runtime.memory.reach import Addresses

if TYPE_CHECKING:
    from softnpu.base.config import Settings
    from softnpu.runtime.device import Device

POLICIES = range(8)
_POLICY_FLAGS = 0x100 | 0x1000 | 0x100000
_FILL_LIMIT = 64 << 20
_DIRTY = 0xCD
_SMALL = 1 << 20


class Allocator:
    """The memory of the process: arenas of devices, the arena of the host, and what they hold."""

    def __init__(self, addresses: Addresses, backend: Backend) -> None:
        self._addresses = addresses
        self._backend = backend
        self._atlas = addresses.atlas
        self.host = Arena(addresses.atlas, backend, "the host")
        self.host_used = 0
        self.devices: list[Device] = []
        self.exported: dict[int, list[Path]] = {}  # files that offer an allocation to other processes
        self.trace = False
        self.limit = 0

    def configure(self, settings: Settings) -> None:
        """Take over what the environment says."""
        self.trace = "trace" in settings.checks
        # The rest is for the program itself and its engines: memory that is all taken ends the process.
        self.limit = (1 << 62) if settings.overcommit else machine_memory() // 4 * 3

    def origin(self) -> str | None:
        """The line of the program that allocates now, where such lines are kept."""
        return callsite.where() if self.trace else None

    def allocate(
        self, device: Device, size: int, policy: int, kind: str = "device", extra: int = 32, align: int = 64
    ) -> int:
        """Device memory by the manual's rule: the size rounded up to 32, `extra` bytes more, an aligned start."""
        if size == 0:
            raise NpuError(codes.INVALID_PARAM, "size is 0", "ask for at least one byte")
        if policy & ~_POLICY_FLAGS not in POLICIES:
            raise NpuError(
                codes.RT_INVALID_MALLOC_TYPE,
                f"allocation policy {policy} is not known",
                "use a value of aclrtMemMallocPolicy, e.g. 0 (ACL_MEM_MALLOC_HUGE_FIRST)",
            )
        padded = (size + 31 & -32) + extra
        allocation = Allocation(size, kind, device, callsite.where() if self.trace else None)
        arena = device.arena
        with arena.lock:
            self.check_room(device, padded, size)
            try:
                if arena.torn:
                    self._mend(arena)
                arena.allocate(allocation, padded, align)
                device.allocations += 1
                device.account(padded)
            except MemoryError as error:
                raise NpuError(
                    codes.RT_MEMORY_ALLOCATION,
                    f"{human(size)} could not be had from the machine: {error}",
                    "free memory, or ask for less",
                ) from error
            except BaseException:  # a signal handler raised in the middle: the next call puts the books in order
                allocation.live = False
                arena.torn = True
                raise
        if self._addresses.strict and padded <= _FILL_LIMIT:
            self._backend.fill(allocation.address, _DIRTY, padded)
        return allocation.address

    def check_room(self, device: Device, padded: int, asked: int | None = None) -> None:
        """Raise unless the device has this much memory left, other processes counted, and the machine too."""
        room = device.info.memory_bytes - device.used
        if padded >= _SMALL:  # asking around costs more than a small allocation is worth
            room -= device.used_by_others()
        if padded > room:
            raise self._full(device, padded if asked is None else asked, room)
        self._check_machine(padded)

    def _mend(self, arena: Arena) -> None:
        """Put the books of an arena in order after an operation on it was cut short."""
        arena.repair()
        counted = [
            allocation
            for allocation in self.live_allocations()
            if allocation.kind in COUNTED_KINDS or allocation.device is None
        ]
        sizes = [(allocation.device, allocation.end - allocation.address) for allocation in counted]
        self.host_used = sum(size for device, size in sizes if device is None)
        for device in self.devices:
            mine = [size for owner, size in sizes if owner is device]
            device.allocations = len(mine)
            device.account(sum(mine) + device.physical - device.used)

    def _check_machine(self, padded: int) -> None:
        if padded < _SMALL:
            return
        used = self.host_used + sum(device.used for device in self.devices)
        if used + padded > self.limit:
            raise NpuError(
                codes.RT_MEMORY_ALLOCATION,
                f"{human(padded)} more would exceed three quarters of this machine's memory, {human(self.limit)} ({human(used)} are allocated)",
                "free memory or use a larger machine; SOFTNPU_OVERCOMMIT=1 takes the check away",
            )

    def _full(self, device: Device, size: int, room: int) -> NpuError:
        others = device.info.memory_bytes - device.used - room
        also = f"; other processes use {human(others)}" if others else ""
        return NpuError(
            codes.RT_MEMORY_ALLOCATION,
            f"{human(size)} were asked for, device {device.index} ({device.soc.name}) has {human(max(0, room))} of {human(device.info.memory_bytes)} left ({device.allocations} live allocations{also})",
            "free memory that is no longer needed; SOFTNPU_CHECK=leaks shows at finalize what was never freed",
        )

    def allocate_host(self, size: int) -> int:
        """Host memory, 64-byte aligned."""
        if size == 0:
            raise NpuError(codes.INVALID_PARAM, "size is 0", "ask for at least one byte")
        padded = size + 63 & -64
        allocation = Allocation(size, "host", None, callsite.where() if self.trace else None)
        with self.host.lock:
            self._check_machine(padded)
            try:
                if self.host.torn:
                    self._mend(self.host)
                self.host.allocate(allocation, padded, 64)
                self.host_used += padded
            except MemoryError as error:
                raise NpuError(
                    codes.RT_MEMORY_ALLOCATION,
                    f"{human(size)} of host memory could not be had: {error}",
                    "free memory, or ask for less",
                ) from error
            except BaseException:
                allocation.live = False
                self.host.torn = True
                raise
        return allocation.address

    def free(self, address: int, kinds: tuple[str, ...], wanted: str) -> None:
        """Free an allocation of one of these kinds by its start address."""
        if address == 0:
            raise NpuError(
                codes.INVALID_PARAM, "the pointer is null (0)", "pass the pointer that the allocation returned"
            )
        allocation = self._atlas.find(address)
        if allocation is None or not allocation.live or address >= allocation.end:
            raise self._addresses.lost(address)
        if allocation.kind not in kinds:
            right = FREED_BY.get(allocation.kind, "another call")
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} is {allocation.kind} memory, {wanted} memory is freed here ({allocation.describe()})",
                f"free it with {right}",
            )
        if address != allocation.address:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} lies {address - allocation.address} bytes inside {allocation.describe()}",
                "free the pointer that the allocation returned, not one with an offset",
            )
        if not self.release(allocation):
            raise self._addresses.lost(address)

    def release(self, allocation: Allocation) -> bool:
        """Free an allocation; False when another thread was quicker."""
        device: Device | None = allocation.device
        arena = self.host if device is None else device.arena
        padded = allocation.end - allocation.address
        with arena.lock:
            try:
                if arena.torn:
                    self._mend(arena)
                if not allocation.live:
                    return False
                if device is None:
                    self.host_used -= padded
                elif allocation.kind in COUNTED_KINDS:
                    device.allocations -= 1
                    device.account(-padded)
                else:  # what is mapped at these addresses must not shine through when they are used again
                    whole = allocation.block.chunks * CHUNK
                    device.backend.unmap_at(allocation.block.base, whole)
                    device.reserved -= whole
                arena.release(allocation)
            except BaseException:
                allocation.live = False
                arena.torn = True
                raise
        if self.exported:
            for path in self.exported.pop(allocation.address, ()):
                path.unlink(missing_ok=True)
        return True

    def live_allocations(self) -> list[Allocation]:
        """All live allocations, by walking the address book."""
        by_address = {}
        for chunk in list(self._atlas.chunks.values()):
            for allocation in list(chunk.slots) if isinstance(chunk, Slab) else (chunk.allocation,):
                if allocation is not None and allocation.live:
                    by_address[allocation.address] = allocation
        return [by_address[address] for address in sorted(by_address)]

    def release_all(self, device: Device | None, note: str) -> int:
        """Free everything of a device (or, with None, of the host side); returns how many allocations there were."""
        count = 0
        for allocation in self.live_allocations():
            if allocation.device is device and allocation.kind not in LASTING_KINDS:
                allocation.note = note
                count += self.release(allocation)
        return count
