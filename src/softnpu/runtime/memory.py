"""Memory: allocation rules of the manual, and the check that every pointer entering the API goes through.

This is the door from addresses to bytes: nothing above `runtime/` looks at memory except through it.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softnpu.base import callsite
from softnpu.base.dtypes import numpy_name
from softnpu.base.errors import NpuError, codes
from softnpu.base.handles import kind_of, with_article
from softnpu.base.log import WARNING, log
from softnpu.base.units import human, machine_memory
from softnpu.runtime.arena import CHUNK, CHUNK_SHIFT, Allocation, Arena, Atlas, Slab
from softnpu.runtime.backends.base import Backend
from softnpu.runtime.foreign import Pins, thread_of, usable_prefix, writable

if TYPE_CHECKING:
    from softnpu.base.config import Settings
    from softnpu.runtime.device import Device

POLICIES = range(8)
_POLICY_FLAGS = 0x100 | 0x1000 | 0x100000
_FILL_LIMIT = 64 << 20
_DIRTY = 0xCD
_SMALL = 1 << 20
COUNTED_KINDS = frozenset({"device", "media", "torch"})  # addresses without own memory do not count as used
DEVICE_KINDS = frozenset({"device", "media", "torch", "virtual", "imported"})
LASTING_KINDS = frozenset({"torch"})  # held by another face: acl.finalize and acl.rt.reset_device leave them alone
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT_KIND, HOST_TO_BUFFER = range(6)
_DIRECTIONS = {
    HOST_TO_HOST: (0, 0),
    HOST_TO_DEVICE: (0, 1),
    DEVICE_TO_HOST: (1, 0),
    DEVICE_TO_DEVICE: (1, 1),
    HOST_TO_BUFFER: (0, 1),
}


class ShortRead(NpuError):
    """Only the first `usable` bytes of a foreign source can be read; `copy` makes do with them, others fail."""

    def __init__(self, usable: int, error: NpuError) -> None:
        super().__init__(error.code, error.text, error.remedy)
        self.usable = usable


class Memory:
    """All memory of the process: device arenas, the host arena, foreign ranges."""

    def __init__(self, settings: Settings, backend: Backend) -> None:
        self.configure(settings)
        self.backend = backend
        self.atlas = Atlas()
        self.host = Arena(self.atlas, backend, "the host")
        self.pins = Pins()
        self.host_used = 0
        self.devices: list[Device] = []
        self.registered: dict[int, int] = {}
        self.exported: dict[int, list[Path]] = {}  # files that offer an allocation to other processes

    def configure(self, settings: Settings) -> None:
        """Take over what the environment says; called again by each `acl.init`."""
        self.strict = "strict" in settings.checks
        self.trace = "trace" in settings.checks
        # The rest is for the program itself and its engines: memory that is all taken ends the process.
        self.limit = (1 << 62) if settings.overcommit else machine_memory() // 4 * 3

    # ---- allocation -------------------------------------------------------------------------------------------------

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
        if self.strict and padded <= _FILL_LIMIT:
            self.backend.fill(allocation.address, _DIRTY, padded)
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
        live = [one for one in self.live_allocations() if one.kind in COUNTED_KINDS or one.device is None]
        sizes = [(one.device, one.end - one.address) for one in live]
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
        allocation = self.atlas.find(address)
        if allocation is None or not allocation.live or address >= allocation.end:
            raise self.lost(address)
        if allocation.kind not in kinds:
            right = _FREED_BY.get(allocation.kind, "another call")
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
            raise self.lost(address)

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
        found = {}
        for chunk in list(self.atlas.chunks.values()):
            for allocation in list(chunk.slots) if isinstance(chunk, Slab) else (chunk.allocation,):
                if allocation is not None and allocation.live:
                    found[allocation.address] = allocation
        return [found[address] for address in sorted(found)]

    def release_all(self, device: Device | None, note: str) -> int:
        """Free everything of a device (or, with None, of the host side); returns how many allocations there were."""
        count = 0
        for allocation in self.live_allocations():
            if allocation.device is device and allocation.kind not in LASTING_KINDS:
                allocation.note = note
                count += self.release(allocation)
        if device is None:
            self.registered.clear()
        return count

    # ---- the check --------------------------------------------------------------------------------------------------

    def reach(self, address: int, size: int, write: bool) -> Allocation | None:
        """Check that `size` bytes at `address` may be touched; the allocation, or None for memory we did not make."""
        chunk = self.atlas.chunks.get(address >> CHUNK_SHIFT)
        if chunk is None:
            self._reach_foreign(address, size, write)
            return None
        allocation = chunk.at(address)
        if allocation is None or not allocation.live or address >= allocation.end:
            raise self.lost(address)
        if address + size > (allocation.address + allocation.size if self.strict else allocation.end):
            raise self._outside(address, size, allocation)
        if allocation.note:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} lies in {allocation.describe()}: {allocation.note}",
                "map physical memory there first (acl.rt.map_mem)",
            )
        return allocation

    def _reach_foreign(self, address: int, size: int, write: bool) -> None:
        room = self.pins.room(address, write)
        if room is not None:
            if size <= room:
                return
            if write or self.strict:
                raise NpuError(
                    codes.RT_PARAM_INVALID,
                    f"{size} bytes at {address:#x} reach {size - room} bytes past the end of the bytes object or array there",
                    "copy less, or pass a larger object",
                )
        if write and (thread := thread_of(address, size)) is not None:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} is where thread {thread} lives, and no memory to write to",
                "a thread id is not a pointer; check the order of the arguments",
            )
        reachable = self.atlas.outside(address, size)
        if reachable is None or kind_of(address) is not None:
            raise self.lost(address)
        usable = usable_prefix(address, reachable, write)
        if usable >= size:
            return
        error = self.lost(address, size, write)
        if usable == 0 or write or self.strict:
            raise error
        raise ShortRead(usable, error)

    def _outside(self, address: int, size: int, allocation: Allocation) -> NpuError:
        offset = address - allocation.address
        place = f"at offset {offset} " if offset else ""
        return NpuError(
            codes.RT_PARAM_INVALID,
            f"{size} bytes {place}reach {address + size - allocation.address - allocation.size} bytes past the end of {allocation.describe()}",
            "copy less, or allocate more",
        )

    def lost(self, address: int, size: int = 0, write: bool = False) -> NpuError:
        """The error for an address under which nothing lives."""
        if address == 0:
            return NpuError(
                codes.INVALID_PARAM, "the pointer is null (0)", "check the ret of the call that should have made it"
            )
        claimed = kind_of(address)
        if claimed is not None:
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} is {with_article(claimed)} handle and no address",
                "check the order of the arguments",
            )
        allocation = self.atlas.find(address)
        if allocation is not None and not allocation.live:
            freed = allocation.note or "freed already"
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} points into memory that was {freed}: {allocation.describe()}",
                "do not use or free a pointer after its free call; set the variable to None there",
            )
        owner = self.atlas.segment_of(address)
        if owner is not None:
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} lies in the address space of {owner}, but nothing is allocated there",
                "check the offset that was added to the pointer",
            )
        verb = "written" if write else "read"
        extent = f" for {size} bytes" if size else ""
        return NpuError(
            codes.RT_PARAM_INVALID,
            f"{address:#x} is no memory of this process that can be {verb}{extent}",
            "pass a pointer from acl.rt.malloc, malloc_host or acl.util.*_to_ptr whose object is still alive",
        )

    def explain(self, value: int) -> str:
        """What an address points into, for messages about values that should have been something else."""
        allocation = self.atlas.find(value)
        if allocation is None:
            return ""
        return f"it points into {allocation.describe()}" + ("" if allocation.live else ", which was freed")

    # ---- copies -----------------------------------------------------------------------------------------------------

    def check_copy(self, dst: int, dst_max: int, src: int, count: int, kind: int, kinds: range = range(6)) -> None:
        """The checks of the manual that need no look at the memory."""
        if dst == 0 or src == 0:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the {'destination' if dst == 0 else 'source'} pointer is null (0)",
                "check the ret of the allocation",
            )
        if kind not in kinds:
            raise NpuError(
                codes.INVALID_PARAM,
                f"copy kind {kind} is not known here",
                f"use a value of aclrtMemcpyKind from {kinds.start} to {kinds.stop - 1}",
            )
        if count > dst_max:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{count} bytes are to be copied into a destination of {dst_max} bytes",
                "copy at most dest_max bytes",
            )

    def copy(self, dst: int, src: int, count: int, kind: int) -> None:
        """Check both ends and copy."""
        try:
            source = self.reach(src, count, False)
        except ShortRead as short:
            log().write(
                WARNING,
                f"{count} bytes are read at {src:#x}, only {short.usable} exist there; the rest is left as it is",
                "RUNTIME",
                "memcpy",
            )
            source, count = None, short.usable
        target = self.reach(dst, count, True)
        if source is not None and target is not None and source.device is not target.device:
            self._check_peers(source, target)
        if kind != DEFAULT_KIND and self.strict:
            self._check_direction(source, target, kind)
        if dst != src:
            self.backend.copy(dst, src, count)

    def _check_peers(self, source: Allocation, target: Allocation) -> None:
        a, b = source.device, target.device
        if a is None or b is None or b.index in a.peers or a.index in b.peers:
            return
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"a copy from device {a.index} to device {b.index} needs peer access, which is off",
            f"call acl.rt.device_enable_peer_access({b.index}, 0) with device {a.index} current, and the other way round",
        )

    def _check_direction(self, source: Allocation | None, target: Allocation | None, kind: int) -> None:
        real = (_on_device(source), _on_device(target))
        if _DIRECTIONS[kind] != real:
            names = ("host", "device")
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"copy kind {kind} says {names[_DIRECTIONS[kind][0]]} to {names[_DIRECTIONS[kind][1]]}, the pointers are {names[real[0]]} to {names[real[1]]}",
                "pass the kind that fits the pointers (strict mode; hardware tolerates it)",
            )

    def copy_2d(self, dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> None:
        """Check both rectangles and copy row by row."""
        target = self.reach(dst, dpitch * (height - 1) + width, True)
        source = self.reach(src, spitch * (height - 1) + width, False)
        if source is not None and target is not None and source.device is not target.device:
            self._check_peers(source, target)
        if kind != DEFAULT_KIND and self.strict:
            self._check_direction(source, target, kind)
        self.backend.copy_2d(dst, dpitch, src, spitch, width, height)

    def fill(self, address: int, value: int, count: int) -> None:
        """Check the range and set its bytes."""
        self.reach(address, count, True)
        self.backend.fill(address, value & 0xFF, count)

    def read(self, address: int, size: int) -> bytes:
        """A copy of bytes at an address."""
        self.reach(address, size, False)
        return _bytes_at(address, size)

    def snapshot(self, address: int, size: int) -> bytes:
        """The same, of the part that exists where a foreign source is short."""
        try:
            return self.read(address, size)
        except ShortRead as short:
            return _bytes_at(address, short.usable)

    def store(self, address: int, data: bytes) -> None:
        """Write bytes to an address."""
        self.reach(address, len(data), True)
        ctypes.memmove(address, data, len(data))

    def array(self, address: int, size: int, data_type: int) -> Any:
        """A NumPy view of memory, typed by an aclDataType (bfloat16 as its bits)."""
        import numpy

        dtype = numpy.dtype(numpy_name(data_type) or numpy.uint16)
        return self.view(address, (size // dtype.itemsize,), dtype)

    def view(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """A NumPy array over memory, writable where the memory is; it owns nothing and copies nothing."""
        import numpy

        size = math.prod(shape) * dtype.itemsize
        ours = self.reach(address, size, False) is not None or self.pins.room(address, True) is not None
        return numpy.asarray(_Interface(address, shape, dtype.str, not (ours or writable(address, size))))

    def window(self, address: int, size: int, write: bool) -> tuple[Any, int]:
        """Bytes as an array that holds them, and where in it they begin: quick for memory of ours that is used again and again."""
        allocation = self.reach(address, size, write)
        if allocation is None:
            return self.view(address, (size,), _BYTES), 0
        if allocation.window is None:
            length = allocation.end - allocation.address
            allocation.window = self.view(allocation.address, (length if not self.strict else allocation.size,), _BYTES)
        return allocation.window, address - allocation.address

    def locate(self, address: int) -> tuple[int, int]:
        """aclrtMemLocationType of a pointer and the id of its device (host 0, device 1, unknown 2)."""
        if address == 0 or kind_of(address) is not None:
            raise self.lost(address)
        allocation = self.atlas.find(address)
        if allocation is None:
            return (0 if self._registration(address) is not None else 2), 0
        if not allocation.live:
            raise self.lost(address)
        return (1, allocation.device.index) if allocation.device is not None else (0, 0)

    # ---- host memory that the program registers ---------------------------------------------------------------------

    def _registration(self, address: int) -> int | None:
        ranges = list(self.registered.items())
        return next((start for start, size in ranges if start <= address < start + size), None)

    def register(self, address: int, size: int, write: bool = True) -> int:
        """Map host memory for the device; the device address is the same, since memory is shared here."""
        if address == 0 or size == 0:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the range has address {address:#x} and size {size}",
                "pass host memory with at least one byte",
            )
        allocation = self.reach(address, size, write)
        if allocation is not None and _on_device(allocation):
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} lies in {allocation.describe()}, which is no host memory",
                "register memory of acl.rt.malloc_host, or of the program's own",
            )
        with self.host.lock:
            ranges = list(self.registered.items())
            if any(address < start + length and start < address + size for start, length in ranges):
                raise NpuError(
                    codes.HOST_MEMORY_ALREADY_REGISTERED,
                    f"{address:#x} lies in a range that is registered already",
                    "call acl.rt.host_unregister first",
                )
            self.registered[address] = size
        return address

    def registered_pointer(self, address: int) -> int:
        """The device address of registered host memory."""
        if self._registration(address) is None:
            raise self._unregistered(address)
        return address

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        if address == 0:
            raise self.lost(address)
        if self.registered.pop(address, None) is None:
            raise self._unregistered(address)

    def _unregistered(self, address: int) -> NpuError:
        return NpuError(
            codes.HOST_MEMORY_NOT_REGISTERED, f"{address:#x} is not registered", "call acl.rt.host_register first"
        )

    def both_on_host(self, dst: int, src: int) -> bool:
        """Whether neither pointer is device memory."""
        return not (_on_device(self.atlas.find(dst)) or _on_device(self.atlas.find(src)))


class _Bytes:
    """What `view` needs to know of a type, without loading NumPy for it."""

    itemsize = 1
    str = "|u1"


_BYTES = _Bytes()


class _Interface:
    """An address as NumPy's array interface."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str, read_only: bool) -> None:
        self.__array_interface__ = {"data": (address, read_only), "shape": shape, "typestr": typestr, "version": 3}


def _on_device(allocation: Allocation | None) -> int:
    return int(allocation is not None and allocation.kind in DEVICE_KINDS)


def _bytes_at(address: int, size: int) -> bytes:
    if size < 1 << 31:
        return ctypes.string_at(address, size)
    return (ctypes.c_char * size).from_address(address).raw  # string_at takes a C int


_FREED_BY = {
    "device": "acl.rt.free",
    "host": "acl.rt.free_host",
    "media": "acl.media.dvpp_free or acl.himpi.dvpp_free",
    "virtual": "acl.rt.unmap_mem and acl.rt.release_mem_address",
    "imported": "acl.rt.ipc_mem_close",
}
