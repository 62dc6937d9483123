"""Bodies of `acl.rt`: virtual addresses, sharing between processes, custom allocators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acl._bodies._common import raw
from softnpu.base.errors import NpuError, Raise, codes
from softnpu.base.log import WARNING, log
from softnpu.runtime.memory.atlas import CHUNK
from softnpu.runtime.process import process
from softnpu.runtime.sharing import exchange, offers, virtual
from softnpu.runtime.streams.stream import Stream

_MAX_KEY = 1024


def reserve_mem_address(size: int, alignment: int, expect_ptr: int, flags: int) -> int:
    if alignment or expect_ptr or flags not in (0, 1):
        raise NpuError(
            codes.INVALID_PARAM,
            f"alignment {alignment}, expected address {expect_ptr:#x} and flags {flags} are reserved",
            "pass 0 for all three",
        )
    return virtual.reserve(process(), size)


def release_mem_address(vptr: int) -> None:
    virtual.release(process(), vptr)


def _device_of(prop: dict[str, Any]) -> int:
    location = prop.get("location", {})
    if not isinstance(location, dict) or not all(
        isinstance(prop.get(key, 0), int) for key in ("handleType", "allocationType", "memAttr", "reserve")
    ):
        raise Raise(ValueError("prop holds a value of a wrong type"))
    device_id, kind = location.get("id", 0), location.get("type", 1)
    if not isinstance(device_id, int) or not isinstance(kind, int):
        raise Raise(ValueError("prop['location'] holds a value of a wrong type"))
    if kind != 1 or prop.get("handleType", 0) or prop.get("allocationType", 0):
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT,
            f"physical memory of location type {kind} is not possible",
            "use location type 1, handleType 0, allocationType 0",
        )
    return device_id


def malloc_physical(size: int, prop: dict[str, Any], flags: int) -> int:
    if flags:
        raise NpuError(codes.INVALID_PARAM, f"flags {flags} are reserved", "pass 0")
    owner = process()
    owner.current()
    return virtual.make_physical(owner, owner.device(_device_of(prop)), size)


@raw
def free_physical(handle: int) -> None:
    virtual.free_physical(process(), handle)


def map_mem(vptr: int, size: int, offset: int, handle: virtual.Physical, flags: int) -> None:
    virtual.map_memory(process(), vptr, size, offset, handle, flags)


def unmap_mem(vptr: int) -> None:
    virtual.unmap(process(), vptr)


def mem_get_allocation_granularity(prop: dict[str, Any], option: int) -> int:
    process().device(_device_of(prop))
    if option not in (0, 1):
        raise NpuError(
            codes.INVALID_PARAM, f"granularity option {option} is not known", "use 0 (minimum) or 1 (recommended)"
        )
    return CHUNK


def mem_export_to_shareable_handle(handle: virtual.Physical, type: int, flags: int) -> int:
    return exchange.export_physical(handle, type, flags)


def mem_set_pid_to_shareable_handle(shareable: int, pids: list[int]) -> None:
    offers.allow(process().lock, exchange.shareable_key(shareable), pids)


def mem_import_from_shareable_handle(shareable: int, device_id: int) -> int:
    owner = process()
    owner.need_start()
    return exchange.import_physical(owner, shareable, device_id)


def ipc_mem_get_export_key(ptr: int, size: int, len: int, flag: int) -> str:
    if len >= _MAX_KEY:
        raise Raise(ValueError(f"len must be below {_MAX_KEY}"))
    offers.key_length(len)
    owner = process()
    owner.current()
    return exchange.export_memory(owner, ptr, size, flag)


def ipc_mem_set_import_pid(key: str, pids: list[int]) -> None:
    offers.allow(process().lock, key, pids)


def ipc_mem_import_by_key(key: str, flag: int) -> int:
    return exchange.import_memory(process(), key, flag)


def ipc_mem_close(key: str) -> None:
    exchange.close_memory(process(), key)


def allocator_create_desc() -> int:
    return process().handles.add("allocator_desc", {})


@raw
def allocator_destroy_desc(desc: int) -> None:
    process().handles.remove("allocator_desc", desc)


def allocator_set_obj_to_desc(desc: dict[str, Any], obj: int) -> None:
    desc["obj"] = obj


def allocator_set_alloc_func_to_desc(desc: dict[str, Any], fn: Callable[..., Any]) -> None:
    desc["alloc"] = fn


def allocator_set_free_func_to_desc(desc: dict[str, Any], fn: Callable[..., Any]) -> None:
    desc["free"] = fn


def allocator_set_alloc_advise_func_to_desc(desc: dict[str, Any], fn: Callable[..., Any]) -> None:
    desc["alloc_advise"] = fn


def allocator_set_get_addr_from_block_func_to_desc(desc: dict[str, Any], fn: Callable[..., Any]) -> None:
    desc["get_addr"] = fn


def allocator_register(stream: Stream, desc: dict[str, Any]) -> None:
    missing = [name for name in ("alloc", "free", "get_addr") if name not in desc]
    if missing:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the allocator has no function for {', '.join(missing)}",
            "set alloc, free and get_addr_from_block first",
        )
    log().write(
        WARNING,
        "custom allocators are registered but never called, as in the published binding",
        "ASCENDCL",
        "allocator_register",
    )
    stream.allocator = dict(desc)


def allocator_unregister(stream: Stream) -> None:
    if stream.allocator is None:
        raise NpuError(codes.INVALID_PARAM, f"stream {stream.id} has no allocator", "register one first")
    stream.allocator = None
