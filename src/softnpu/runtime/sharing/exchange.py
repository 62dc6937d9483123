"""Sharing between processes: device memory, physical memory, notifies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from softnpu.base.errors import NpuError, codes
from softnpu.runtime.memory.atlas import CHUNK, Allocation
from softnpu.runtime.parts import Part
from softnpu.runtime.sharing import offers
from softnpu.runtime.sharing.virtual import Mappings, Physical, take_addresses
from softnpu.runtime.streams.event import Notify, SharedCell

if TYPE_CHECKING:
    from softnpu.runtime.device import Device
    from softnpu.runtime.process import Process

_NO_PID_CHECK_MEMORY = 1
_NO_PID_CHECK_NOTIFY = 2
_PAGE = 4096


class Shared(Part):
    """What this process offers to others and has from them."""

    def __init__(self, owner: Process) -> None:
        self._owner = owner
        self.exports: dict[str, Allocation] = {}  # by key
        self.imports: dict[str, Allocation] = {}
        self.notifies: dict[Notify, int] = {}  # the descriptor of the page of each

    @classmethod
    def of(cls, owner: Process) -> Shared:
        return cls(owner)

    def finalize(self) -> None:
        """Take records away and close descriptors."""
        for notify in list(self.notifies):
            self.close_notify(notify)
        for device in self._owner.devices:
            self.sweep(device)

    def sweep(self, device: Device) -> None:
        """End what is imported on a device and exported from it."""
        for offers_by_key in (self.imports, self.exports):
            for key in [key for key, allocation in list(offers_by_key.items()) if allocation.device is device]:
                close_memory(self._owner, key)

    def close_notify(self, notify: Notify) -> None:
        """A notify ends: nobody can import it any longer. Its page stays, since a stream may still look at it."""
        descriptor = self.notifies.pop(notify, None)
        if descriptor is not None:
            if notify.key:
                offers.record(notify.key).unlink(missing_ok=True)
            os.close(descriptor)


# ---- memory between processes ----------------------------------------------------------------------------------------


def export_memory(process: Process, address: int, size: int, flag: int) -> str:
    """A key under which another process can map an allocation."""
    if flag not in (0, _NO_PID_CHECK_MEMORY) or address == 0 or size == 0:
        raise NpuError(
            codes.INVALID_PARAM,
            f"address {address:#x}, size {size}, flag {flag} cannot be exported",
            "pass device memory and flag 0 or 1",
        )
    allocation = process.memory.reach(address, size, True)
    if allocation is None or allocation.kind != "device":
        raise NpuError(
            codes.RT_PARAM_INVALID, f"{address:#x} is no memory of acl.rt.malloc", "only such memory can be shared"
        )
    try:
        chunks = allocation.device.arena.share(allocation)
    except MemoryError as error:
        raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
    start = chunks[0][0]
    descriptors = [offers.offered(descriptor) for _, descriptor in chunks]
    allowed, is_open = [os.getpid()], flag == _NO_PID_CHECK_MEMORY
    key = offers.publish(offers.Offer("memory", os.getpid(), descriptors, size, address - start, allowed, is_open))
    process.part(Shared).exports[key] = allocation
    process.memory.allocator.exported.setdefault(allocation.address, []).append(offers.record(key))
    return key


def import_memory(process: Process, key: str, flag: int) -> int:
    """Map memory that another process exported."""
    offer = offers.load(key, "memory")
    offers.check_allowed(offer, key)
    if flag not in (0, 1):
        raise NpuError(codes.INVALID_PARAM, f"import flag {flag} is not known", "pass 0 or 1")
    device = process.current().device
    whole = len(offer.descriptors) * CHUNK
    if offer.offset + offer.size > whole or offer.size == 0:
        raise NpuError(codes.RT_PARAM_INVALID, f"key {key} is not known: the file is damaged", "export again")
    with process.lock:
        imports = process.part(Shared).imports
        if key in imports:
            raise NpuError(
                codes.RT_PARAM_INVALID, f"key {key} is imported already", "use the pointer of the first import"
            )
        descriptors = offers.open_all(offer, key, CHUNK)
        allocation = Allocation(offer.size, "imported", device, process.memory.allocator.origin())
        try:
            take_addresses(device, allocation, whole)
            imports[key] = allocation
            for index, descriptor in enumerate(descriptors):
                device.backend.map_at(allocation.block.base + index * CHUNK, CHUNK, descriptor)
            allocation.address += offer.offset
            allocation.end = allocation.address + offer.size
        except MemoryError as error:
            if imports.pop(key, None) is not None:
                process.memory.release(allocation)
            raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
        finally:
            offers.close(descriptors)
    return allocation.address


def close_memory(process: Process, key: str) -> None:
    """Undo an export or an import of this process."""
    shared = process.part(Shared)
    imported = shared.imports.pop(key, None)
    if imported is not None:
        process.memory.release(imported)
        return
    exported = shared.exports.pop(key, None)
    if exported is None:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"key {key!r} was neither exported nor imported by this process",
            "pass a key of this process",
        )
    path = offers.record(key)
    path.unlink(missing_ok=True)
    others = [other for other in process.memory.allocator.exported.pop(exported.address, []) if other != path]
    if others and exported.live:
        process.memory.allocator.exported[exported.address] = others


def export_physical(memory: Physical, kind: int, flags: int) -> int:
    """A number under which another process can import physical memory."""
    if kind != 1 or flags not in (0, _NO_PID_CHECK_MEMORY):
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT,
            f"share type {kind} with flags {flags} is not possible",
            "use type 1 and flags 0 or 1",
        )
    if not memory.key:
        number = int.from_bytes(os.urandom(8), "little") >> 2 | 1 << 62
        allowed = [os.getpid()]
        offer = offers.Offer(
            "physical", os.getpid(), [offers.offered(memory.descriptor)], memory.size, 0, allowed, False
        )
        offers.write(shareable_key(number), offer)
        memory.key = shareable_key(number)
    if flags == _NO_PID_CHECK_MEMORY:
        offer = offers.load(memory.key, "physical")
        offer.open = True
        offers.write(memory.key, offer)
    return int(memory.key[-16:], 16)


def shareable_key(number: int) -> str:
    """The key behind a shareable number."""
    return f"softnpu-{number:032x}"


def import_physical(process: Process, number: int, device_id: int) -> int:
    """A handle for physical memory that another process exported."""
    key = shareable_key(number)
    offer = offers.load(key, "physical")
    offers.check_allowed(offer, key)
    device = process.device(device_id)
    if offer.size == 0 or offer.size % CHUNK:
        raise NpuError(codes.RT_PARAM_INVALID, f"key {key} is not known: the file is damaged", "export again")
    process.part(Mappings)  # which closes it when the device goes
    (descriptor,) = offers.open_all(offer, key, offer.size)[:1]
    return process.handles.add("physical_mem", Physical(device, offer.size, descriptor, imported=True))


# ---- notifies between processes --------------------------------------------------------------------------------------


def export_notify(process: Process, notify: Notify, length: int, flag: int) -> str:
    """A key under which another process can use a notify."""
    if flag not in (0, _NO_PID_CHECK_NOTIFY):
        raise NpuError(
            codes.INVALID_PARAM, f"export flag {flag} is not known", "pass 0, or 2 to turn the process check off"
        )
    with process.lock:
        shared = process.part(Shared)
        notify.at_end = shared.close_notify
        if notify not in shared.notifies:
            shared.notifies[notify] = _share_notify(notify)
        if not notify.key:
            allowed, is_open = [os.getpid()], flag == _NO_PID_CHECK_NOTIFY
            descriptors = [offers.offered(shared.notifies[notify])]
            notify.key = offers.publish(offers.Offer("notify", os.getpid(), descriptors, _PAGE, 0, allowed, is_open))
    return notify.key


def _share_notify(notify: Notify) -> int:
    backend = notify.context.device.backend
    try:
        descriptor = backend.make_physical(_PAGE)
        notify.move(SharedCell(_word(backend.map_shared(descriptor, 0, _PAGE))))
    except MemoryError as error:
        raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
    return descriptor


def allow_notify(process: Process, notify: Notify, pids: list[int]) -> None:
    """Add processes that may import a notify."""
    if not notify.key:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"notify {notify.id} was not exported", "call acl.rt.notify_get_export_key first"
        )
    offers.allow(process.lock, notify.key, pids)


def import_notify(process: Process, key: str, flag: int) -> Notify:
    """A notify of this process that stands for one of another."""
    if flag not in (0, 2):
        raise NpuError(codes.INVALID_PARAM, f"import flag {flag} is not known", "pass 0 or 2")
    offer = offers.load(key, "notify")
    offers.check_allowed(offer, key)
    context = process.current()
    descriptors = offers.open_all(offer, key, _PAGE)
    try:
        address = context.device.backend.map_shared(descriptors[0], 0, _PAGE)
    except MemoryError as error:
        raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
    finally:
        offers.close(descriptors)
    notify = process.registry.create_notify(0)
    notify.move(SharedCell(_word(address)))
    return notify


def _word(address: int) -> memoryview:
    import ctypes

    return memoryview((ctypes.c_uint8 * 1).from_address(address)).cast("B")
