"""Memory beyond plain allocation: virtual addresses with physical memory mapped in, and sharing between processes.

What is exported is described in a small JSON file in the runtime directory, named by its key. The importer checks the
list of allowed processes there and opens the exporter's descriptors through /proc, which the kernel permits only to
the same user.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from softnpu.base import callsite, config
from softnpu.base.errors import NpuError, codes
from softnpu.runtime.arena import CHUNK, Allocation
from softnpu.runtime.event import Notify, SharedCell
from softnpu.runtime.memory import align_up

if TYPE_CHECKING:
    from softnpu.runtime.device import Device
    from softnpu.runtime.process import Process

KEY_BYTES = 65
_KEY = re.compile(r"softnpu-[0-9a-f]{32}", re.ASCII)
_NO_PID_CHECK_MEMORY = 1
_NO_PID_CHECK_NOTIFY = 2
_UNMAPPED = "no physical memory is mapped there"
_PAGE = 4096
_CLOSED = -1
_MOST_ADDRESSES = 16  # times the memory of the device


@dataclass
class Physical:
    """Physical memory without an address."""

    device: Device
    size: int
    descriptor: int
    mapped: int = 0
    key: str = ""
    imported: bool = False


# ---- virtual addresses -----------------------------------------------------------------------------------------------


def reserve(process: Process, size: int) -> int:
    """Reserve addresses; touching them fails until memory is mapped."""
    if size == 0:
        raise NpuError(codes.INVALID_PARAM, "size is 0", "reserve at least one granule (2 MiB)")
    device = process.current().device
    allocation = Allocation(size, "virtual", device, callsite.where() if process.memory.trace else None)
    allocation.note = _UNMAPPED
    _take_addresses(device, allocation, align_up(size, CHUNK))
    return allocation.address


def _take_addresses(device: Device, allocation: Allocation, whole: int) -> None:
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
    allocation = process.atlas.find(address) if address else None
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
    with device.arena.lock:
        process.memory.check_room(device, size)
        try:
            descriptor = device.backend.make_physical(size)
        except MemoryError as error:
            raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
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
        _record(memory.key).unlink(missing_ok=True)
    if not memory.imported:
        with memory.device.arena.lock:
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
        process.extra.setdefault("mapped", {})[address] = memory


def unmap(process: Process, address: int) -> None:
    """Take physical memory away from reserved addresses."""
    with process.lock:
        allocation = _reservation(process, address)
        memory: Physical | None = process.extra.get("mapped", {}).pop(address, None)
        if memory is None:
            raise NpuError(
                codes.RT_PARAM_INVALID, f"nothing is mapped at {address:#x}", "map memory with acl.rt.map_mem first"
            )
        allocation.note = _UNMAPPED
        memory.device.backend.unmap_at(address, allocation.end - address)
        memory.mapped -= 1


# ---- keys ------------------------------------------------------------------------------------------------------------


def key_length(length: int) -> int:
    """The caller's buffer must hold a key of 65 bytes."""
    if length < KEY_BYTES:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"a key needs {KEY_BYTES} bytes, {length} were offered", f"pass {KEY_BYTES}"
        )
    return length


def _record(key: str) -> Path:
    if not _KEY.fullmatch(key):
        raise NpuError(
            codes.RT_PARAM_INVALID, f"{key!r} is no key of shared memory", "pass the key that the exporting process got"
        )
    return config.runtime_dir() / f"{key}.share"


def _publish(offer: _Offer) -> str:
    key = f"softnpu-{os.urandom(16).hex()}"
    _write(key, offer)
    return key


def _write(key: str, offer: _Offer) -> None:
    path = _record(key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(vars(offer)), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise NpuError(
            codes.RT_IPC_ERROR,
            f"{path.parent} cannot be written: {error}",
            "set SOFTNPU_RUNTIME_DIR to a directory of yours",
        ) from error


@dataclass
class _Offer:
    """What a key file says."""

    kind: str
    pid: int
    descriptors: list[list[int]]  # number and inode of each
    size: int
    offset: int
    allowed: list[int]
    open: bool

    def sound(self) -> bool:
        """Whether every field holds what it should: a file is not trusted because of its name."""
        numbers = [self.pid, self.size, self.offset, *self.allowed, *(one for pair in self.descriptors for one in pair)]
        return (
            all(type(one) is int and one >= 0 for one in numbers)
            and all(len(pair) == 2 for pair in self.descriptors)
            and len(self.descriptors) >= 1
            and self.pid > 0
            and type(self.open) is bool
        )


def _load(key: str, kind: str = "") -> _Offer:
    path = _record(key)
    try:
        offer = _Offer(**json.loads(path.read_text(encoding="utf-8")))
        if not offer.sound():
            raise ValueError("the file is damaged")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"key {key} is not known: {error}", "import while the exporting process lives"
        ) from error
    if kind and offer.kind != kind:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"key {key} does not stand for a {kind}", "pass the key to the matching import call"
        )
    return offer


def allow(process: Process, key: str, pids: list[int]) -> None:
    """Add processes that may import a key."""
    with process.lock:
        offer = _load(key)
        if offer.pid != os.getpid():
            raise NpuError(
                codes.RT_NO_PERMISSION,
                f"key {key} was exported by another process",
                "only the exporter may add processes",
            )
        if any(pid < 0 for pid in pids):
            raise NpuError(codes.RT_PARAM_INVALID, f"{pids} holds a number that is no process id", "pass process ids")
        offer.allowed = sorted({*offer.allowed, *pids})
        _write(key, offer)


def _check_allowed(offer: _Offer, key: str) -> None:
    if not offer.open and os.getpid() not in offer.allowed:
        raise NpuError(
            codes.RT_NO_PERMISSION,
            f"process {os.getpid()} is not on the list of key {key}",
            "let the exporter add it with the set_import_pid call, or export with the flag that turns the check off",
        )


def _offered(descriptor: int) -> list[int]:
    return [descriptor, os.fstat(descriptor).st_ino]


def _open(offer: _Offer, key: str, each: int) -> list[int]:
    """The exporter's descriptors as ours; each must be the memory it was, with at least `each` bytes."""
    opened: list[int] = []
    try:
        for number, inode in offer.descriptors:
            opened.append(os.open(f"/proc/{offer.pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
            status = os.fstat(opened[-1])
            # The number of a dead exporter may belong to another process by now, with other files.
            if not stat.S_ISREG(status.st_mode) or status.st_ino != inode or status.st_size < each:
                raise OSError(f"descriptor {number} is not the memory that was exported")
    except (OSError, OverflowError) as error:
        _close(opened)
        if not os.path.isdir(f"/proc/{offer.pid}"):
            _record(key).unlink(missing_ok=True)
        raise NpuError(
            codes.RT_IPC_ERROR,
            f"memory of process {offer.pid} cannot be opened: {error}",
            "the exporting process must be alive and belong to the same user",
        ) from error
    return opened


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
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
    descriptors = [_offered(descriptor) for _, descriptor in chunks]
    allowed, is_open = [os.getpid()], flag == _NO_PID_CHECK_MEMORY
    key = _publish(_Offer("memory", os.getpid(), descriptors, size, address - start, allowed, is_open))
    process.extra.setdefault("exports", {})[key] = allocation
    process.memory.exported.setdefault(allocation.address, []).append(_record(key))
    return key


def import_memory(process: Process, key: str, flag: int) -> int:
    """Map memory that another process exported."""
    offer = _load(key, "memory")
    _check_allowed(offer, key)
    if flag not in (0, 1):
        raise NpuError(codes.INVALID_PARAM, f"import flag {flag} is not known", "pass 0 or 1")
    device = process.current().device
    whole = len(offer.descriptors) * CHUNK
    if offer.offset + offer.size > whole or offer.size == 0:
        raise NpuError(codes.RT_PARAM_INVALID, f"key {key} is not known: the file is damaged", "export again")
    with process.lock:
        imports = process.extra.setdefault("imports", {})
        if key in imports:
            raise NpuError(
                codes.RT_PARAM_INVALID, f"key {key} is imported already", "use the pointer of the first import"
            )
        descriptors = _open(offer, key, CHUNK)
        allocation = Allocation(offer.size, "imported", device, callsite.where() if process.memory.trace else None)
        try:
            _take_addresses(device, allocation, whole)
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
            _close(descriptors)
    return allocation.address


def close_memory(process: Process, key: str) -> None:
    """Undo an export or an import of this process."""
    imported = process.extra.get("imports", {}).pop(key, None)
    if imported is not None:
        process.memory.release(imported)
        return
    exported = process.extra.get("exports", {}).pop(key, None)
    if exported is None:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"key {key!r} was neither exported nor imported by this process",
            "pass a key of this process",
        )
    path = _record(key)
    path.unlink(missing_ok=True)
    others = [one for one in process.memory.exported.pop(exported.address, []) if one != path]
    if others and exported.live:
        process.memory.exported[exported.address] = others


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
        offer = _Offer("physical", os.getpid(), [_offered(memory.descriptor)], memory.size, 0, allowed, False)
        _write(shareable_key(number), offer)
        memory.key = shareable_key(number)
    if flags == _NO_PID_CHECK_MEMORY:
        offer = _load(memory.key, "physical")
        offer.open = True
        _write(memory.key, offer)
    return int(memory.key[-16:], 16)


def shareable_key(number: int) -> str:
    """The key behind a shareable number."""
    return f"softnpu-{number:032x}"


def import_physical(process: Process, number: int, device_id: int) -> int:
    """A handle for physical memory that another process exported."""
    key = shareable_key(number)
    offer = _load(key, "physical")
    _check_allowed(offer, key)
    device = process.device(device_id)
    if offer.size == 0 or offer.size % CHUNK:
        raise NpuError(codes.RT_PARAM_INVALID, f"key {key} is not known: the file is damaged", "export again")
    (descriptor,) = _open(offer, key, offer.size)[:1]
    return process.handles.add("physical_mem", Physical(device, offer.size, descriptor, imported=True))


# ---- notifies between processes --------------------------------------------------------------------------------------


def export_notify(process: Process, notify: Notify, length: int, flag: int) -> str:
    """A key under which another process can use a notify."""
    if flag not in (0, _NO_PID_CHECK_NOTIFY):
        raise NpuError(
            codes.INVALID_PARAM, f"export flag {flag} is not known", "pass 0, or 2 to turn the process check off"
        )
    with process.lock:
        shared = process.extra.setdefault("notifies", {})
        if notify not in shared:
            shared[notify] = _share_notify(notify)
        if not notify.key:
            allowed, is_open = [os.getpid()], flag == _NO_PID_CHECK_NOTIFY
            descriptors = [_offered(shared[notify])]
            notify.key = _publish(_Offer("notify", os.getpid(), descriptors, _PAGE, 0, allowed, is_open))
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
    allow(process, notify.key, pids)


def import_notify(process: Process, key: str, flag: int) -> Notify:
    """A notify of this process that stands for one of another."""
    if flag not in (0, 2):
        raise NpuError(codes.INVALID_PARAM, f"import flag {flag} is not known", "pass 0 or 2")
    offer = _load(key, "notify")
    _check_allowed(offer, key)
    context = process.current()
    descriptors = _open(offer, key, _PAGE)
    try:
        address = context.device.backend.map_shared(descriptors[0], 0, _PAGE)
    except MemoryError as error:
        raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
    finally:
        _close(descriptors)
    notify = process.create_notify(0)
    notify.move(SharedCell(_word(address)))
    return notify


def _word(address: int) -> memoryview:
    import ctypes

    return memoryview((ctypes.c_uint8 * 1).from_address(address)).cast("B")


def close_notify(process: Process, notify: Notify) -> None:
    """A notify ends: nobody can import it any longer. Its page stays, since a stream may still look at it."""
    descriptor = process.extra.get("notifies", {}).pop(notify, None)
    if descriptor is not None:
        if notify.key:
            _record(notify.key).unlink(missing_ok=True)
        os.close(descriptor)


def close_device(process: Process, device: Device) -> None:
    """The memory of a device is released: end what is mapped there, imported there and exported from there."""
    mapped, imports, exports = (process.extra.get(name, {}) for name in ("mapped", "imports", "exports"))
    for address in list(mapped):
        allocation = process.atlas.find(address)
        if allocation is not None and allocation.device is device:
            unmap(process, address)
    for key in [key for owned in (imports, exports) for key, one in list(owned.items()) if one.device is device]:
        close_memory(process, key)
    for handle, _, memory in process.handles.live("physical_mem"):
        if memory.device is device and not memory.mapped:
            process.handles.discard(handle)
            drop_physical(memory)


def close_all(process: Process) -> None:
    """The process is finalised: take records away and close descriptors."""
    for notify in list(process.extra.get("notifies", {})):
        close_notify(process, notify)
    for device in process.devices:
        close_device(process, device)
    for device in process.devices:  # memory of one device may have been mapped on another
        close_device(process, device)
