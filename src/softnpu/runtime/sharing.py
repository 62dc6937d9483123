"""Memory beyond plain allocation: virtual addresses with physical memory mapped in, and sharing between processes.

What is exported is described in a small JSON file in the runtime directory, named by its key. The importer checks the
list of allowed processes there and opens the exporter's descriptors through /proc, which the kernel permits only to
the same user.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softnpu.base import config
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
    whole = align_up(size, CHUNK)
    if whole > device.info.memory_bytes * 16:
        raise NpuError(codes.RT_MEMORY_ALLOCATION, f"{size} bytes of addresses are not to be had", "reserve less")
    allocation = Allocation(size, "virtual", device, None)
    try:
        with device.arena.lock:
            device.arena.allocate(allocation, whole, CHUNK)
    except MemoryError as error:
        raise NpuError(
            codes.RT_MEMORY_ALLOCATION, f"{size} bytes of addresses are not to be had: {error}", "reserve less"
        ) from error
    allocation.note = _UNMAPPED
    return allocation.address


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
    allocation = _reservation(process, address)
    if not allocation.note:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"physical memory is still mapped at {address:#x}", "call acl.rt.unmap_mem first"
        )
    allocation.device.arena.release(allocation)


def make_physical(process: Process, device: Device, size: int) -> int:
    """Physical memory of a device; counts as used."""
    if size == 0 or size % CHUNK:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{size} bytes are no multiple of the granularity of {CHUNK}",
            "see acl.rt.mem_get_allocation_granularity",
        )
    with device.arena.lock:
        if device.used + size > device.info.memory_bytes:
            raise NpuError(
                codes.RT_MEMORY_ALLOCATION, f"device {device.index} has no {size} bytes left", "free memory first"
            )
        try:
            descriptor = device.backend.make_physical(size)
        except MemoryError as error:
            raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
        device.account(size)
    return process.handles.add("physical_mem", Physical(device, size, descriptor))


def free_physical(process: Process, handle: int) -> None:
    """Free physical memory that is mapped nowhere."""
    memory: Physical = process.handles.get("physical_mem", handle)
    if memory.mapped:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"the physical memory is still mapped at {memory.mapped} place(s)",
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
    os.close(memory.descriptor)


def map_memory(process: Process, address: int, size: int, offset: int, memory: Physical, flags: int) -> None:
    """Put physical memory under reserved addresses."""
    allocation = _reservation(process, address)
    if offset or flags:
        raise NpuError(codes.INVALID_PARAM, f"offset {offset} and flags {flags} are reserved", "pass 0 for both")
    if not allocation.note:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"memory is mapped at {address:#x} already", "call acl.rt.unmap_mem first"
        )
    if size == 0 or size % CHUNK or size > memory.size or size > allocation.end - allocation.address:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{size} bytes cannot be mapped: {memory.size} are there, {allocation.size} are reserved, the granularity is {CHUNK}",
            "map the size of the physical memory",
        )
    if memory.device is not allocation.device and memory.device.index not in allocation.device.peers:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"the memory is of device {memory.device.index}, the addresses of device {allocation.device.index}",
            "reserve and allocate on the same device",
        )
    memory.device.backend.map_at(address, size, memory.descriptor)
    memory.mapped += 1
    allocation.size = size
    allocation.note = ""
    process.extra.setdefault("mapped", {})[address] = memory


def unmap(process: Process, address: int) -> None:
    """Take physical memory away from reserved addresses."""
    allocation = _reservation(process, address)
    memory: Physical | None = process.extra.get("mapped", {}).pop(address, None)
    if memory is None:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"nothing is mapped at {address:#x}", "map memory with acl.rt.map_mem first"
        )
    allocation.note = _UNMAPPED
    memory.device.backend.unmap_at(address, align_up(allocation.size, CHUNK))
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


def _publish(record: dict[str, Any]) -> str:
    key = f"softnpu-{os.urandom(16).hex()}"
    _write(key, record)
    return key


def _write(key: str, record: dict[str, Any]) -> None:
    path = _record(key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(record), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise NpuError(
            codes.RT_IPC_ERROR,
            f"{path.parent} cannot be written: {error}",
            "set SOFTNPU_RUNTIME_DIR to a directory of yours",
        ) from error


def _load(key: str, kind: str) -> dict[str, Any]:
    path = _record(key)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"key {key} is not known: {error}", "import while the exporting process lives"
        ) from error
    if not isinstance(record, dict) or record.get("kind") != kind:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"key {key} does not stand for a {kind}", "pass the key to the matching import call"
        )
    return record


def allow(key: str, pids: list[int]) -> None:
    """Add processes that may import a key."""
    path = _record(key)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NpuError(codes.RT_PARAM_INVALID, f"key {key} is not known: {error}", "export first") from error
    if record.get("pid") != os.getpid():
        raise NpuError(
            codes.RT_NO_PERMISSION, f"key {key} was exported by another process", "only the exporter may add processes"
        )
    record["allowed"] = sorted({*record["allowed"], *pids})
    _write(key, record)


def _check_allowed(record: dict[str, Any], key: str) -> None:
    if not record["open"] and os.getpid() not in record["allowed"]:
        raise NpuError(
            codes.RT_NO_PERMISSION,
            f"process {os.getpid()} is not on the list of key {key}",
            "let the exporter add it with the set_import_pid call, or export with the flag that turns the check off",
        )


def _open(pid: int, descriptor: int) -> int:
    try:
        return os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise NpuError(
            codes.RT_IPC_ERROR,
            f"memory of process {pid} cannot be opened: {error}",
            "the exporting process must be alive and belong to the same user",
        ) from error


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
    record = {
        "kind": "memory", "pid": os.getpid(), "descriptors": [descriptor for _, descriptor in chunks], "chunk": CHUNK,
        "offset": address - chunks[0][0], "size": size, "device": allocation.device.info.index, "allowed": [os.getpid()],
        "open": flag == _NO_PID_CHECK_MEMORY,
    }  # fmt: skip
    key = _publish(record)
    process.extra.setdefault("exports", {})[key] = allocation
    return key


def import_memory(process: Process, key: str, flag: int) -> int:
    """Map memory that another process exported."""
    record = _load(key, "memory")
    _check_allowed(record, key)
    if flag not in (0, 1):
        raise NpuError(codes.INVALID_PARAM, f"import flag {flag} is not known", "pass 0 or 1")
    device = process.current().device
    imports = process.extra.setdefault("imports", {})
    if key in imports:
        raise NpuError(codes.RT_PARAM_INVALID, f"key {key} is imported already", "use the pointer of the first import")
    descriptors = [_open(record["pid"], one) for one in record["descriptors"]]
    allocation = Allocation(record["size"], "imported", device, None)
    try:
        with device.arena.lock:
            device.arena.allocate(allocation, len(descriptors) * CHUNK, CHUNK)
            for index, descriptor in enumerate(descriptors):
                device.backend.map_at(allocation.address + index * CHUNK, CHUNK, descriptor)
    except MemoryError as error:
        raise NpuError(codes.RT_MEMORY_ALLOCATION, str(error), "free memory first") from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    imports[key] = allocation
    return int(allocation.address + record["offset"])


def close_memory(process: Process, key: str) -> None:
    """Undo an export or an import of this process."""
    imported = process.extra.get("imports", {}).pop(key, None)
    if imported is not None:
        device = imported.device
        device.backend.unmap_at(imported.address, imported.end - imported.address)
        device.arena.release(imported)
        return
    if process.extra.get("exports", {}).pop(key, None) is None:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"key {key!r} was neither exported nor imported by this process",
            "pass a key of this process",
        )
    _record(key).unlink(missing_ok=True)


def export_physical(memory: Physical, kind: int, flags: int) -> int:
    """A number under which another process can import physical memory."""
    if kind != 1 or flags not in (0, _NO_PID_CHECK_MEMORY):
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT,
            f"share type {kind} with flags {flags} is not possible",
            "use type 1 and flags 0 or 1",
        )
    if not memory.key:
        record = {
            "kind": "physical",
            "pid": os.getpid(),
            "descriptors": [memory.descriptor],
            "size": memory.size,
            "allowed": [os.getpid()],
            "open": flags == _NO_PID_CHECK_MEMORY,
        }
        number = int.from_bytes(os.urandom(8), "little") >> 2 | 1 << 62
        memory.key = shareable_key(number)
        _write(memory.key, record)
    return int(memory.key[-16:], 16)


def shareable_key(number: int) -> str:
    """The key behind a shareable number."""
    return f"softnpu-{number:032x}"


def import_physical(process: Process, number: int, device_id: int) -> int:
    """A handle for physical memory that another process exported."""
    key = shareable_key(number)
    record = _load(key, "physical")
    _check_allowed(record, key)
    device = process.device(device_id)
    descriptor = _open(record["pid"], record["descriptors"][0])
    return process.handles.add("physical_mem", Physical(device, record["size"], descriptor, imported=True))


# ---- notifies between processes --------------------------------------------------------------------------------------


def export_notify(process: Process, notify: Notify, length: int, flag: int) -> str:
    """A key under which another process can use a notify."""
    if flag not in (0, _NO_PID_CHECK_NOTIFY):
        raise NpuError(
            codes.INVALID_PARAM, f"export flag {flag} is not known", "pass 0, or 2 to turn the process check off"
        )
    if notify.key:
        return notify.key
    backend = notify.context.device.backend
    descriptor = backend.make_physical(4096)
    notify.move(SharedCell(_word(backend.map_shared(descriptor, 0, 4096))))
    record = {
        "kind": "notify",
        "pid": os.getpid(),
        "descriptors": [descriptor],
        "allowed": [os.getpid()],
        "open": flag == _NO_PID_CHECK_NOTIFY,
    }
    notify.key = _publish(record)
    process.extra.setdefault("notifies", {})[notify.key] = descriptor
    return notify.key


def allow_notify(notify: Notify, pids: list[int]) -> None:
    """Add processes that may import a notify."""
    if not notify.key:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"notify {notify.id} was not exported", "call acl.rt.notify_get_export_key first"
        )
    allow(notify.key, pids)


def import_notify(process: Process, key: str, flag: int) -> Notify:
    """A notify of this process that stands for one of another."""
    if flag not in (0, 2):
        raise NpuError(codes.INVALID_PARAM, f"import flag {flag} is not known", "pass 0 or 2")
    record = _load(key, "notify")
    _check_allowed(record, key)
    notify = process.create_notify(0)
    descriptor = _open(record["pid"], record["descriptors"][0])
    try:
        address = notify.context.device.backend.map_shared(descriptor, 0, 4096)
    finally:
        os.close(descriptor)
    notify.move(SharedCell(_word(address)))
    return notify


def _word(address: int) -> memoryview:
    import ctypes

    return memoryview((ctypes.c_uint8 * 1).from_address(address)).cast("B")


def close_all(process: Process) -> None:
    """The process is finalised: take records away and close descriptors."""
    for key, descriptor in process.extra.get("notifies", {}).items():
        _record(key).unlink(missing_ok=True)
        os.close(descriptor)
    for key in process.extra.get("exports", {}):
        _record(key).unlink(missing_ok=True)
    for address, memory in process.extra.get("mapped", {}).items():
        memory.device.backend.unmap_at(address, align_up(memory.size, CHUNK))
    for key in list(process.extra.get("imports", {})):
        close_memory(process, key)
    for handle, _, memory in process.handles.live("physical_mem"):
        process.handles.discard(handle)
        drop_physical(memory)
