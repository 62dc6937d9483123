"""Bodies of `acl.rt`: allocation."""

from __future__ import annotations

from typing import Any

from softnpu.base.errors import NpuError, Raise, codes
from softnpu.runtime.process import process

_READ_ONLY = 8
_ATTRIBUTES = range(4)
_MEMORY_KINDS = {
    0: "ddr",
    2: "ddr",
    3: "ddr",
    6: "ddr",
    7: "ddr",
    **dict.fromkeys((1, 4, 5, 8, 9, 10, 11), "hbm"),
    **dict.fromkeys(range(12, 18), ""),
}


def malloc(size: int, policy: int) -> int:
    owner = process()
    return owner.memory.allocator.allocate(owner.registry.current().device, size, policy)


def malloc_cached(size: int, policy: int) -> int:
    return malloc(size, policy)


def malloc_align32(size: int, policy: int) -> int:
    owner = process()
    return owner.memory.allocator.allocate(owner.registry.current().device, size, policy, extra=0)


def _number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, list) and all(isinstance(number, int) for number in value))


def _attribute(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("attr"), int):
        return False
    value = entry.get("value", {})
    return isinstance(value, dict) and all(_number(field) for field in value.values())


def _check_config(cfg: dict[str, Any]) -> None:
    count, attributes = cfg.get("numAttrs", 0), cfg.get("attrs", [])
    if not isinstance(count, int) or not isinstance(attributes, list) or not all(map(_attribute, attributes)):
        raise Raise(ValueError("cfg must be {'numAttrs': n, 'attrs': [{'attr': a, 'value': {'moduleId': m}}, …]}"))
    if count != len(attributes):
        raise NpuError(
            codes.INVALID_PARAM, f"numAttrs is {count}, attrs has {len(attributes)} entries", "make them agree"
        )
    for entry in attributes:
        if entry["attr"] not in _ATTRIBUTES:
            raise NpuError(
                codes.INVALID_PARAM,
                f"allocation attribute {entry['attr']} is not known",
                "use aclrtMallocAttrType 0 to 3",
            )


def malloc_with_cfg(size: int, policy: int, cfg: dict[str, Any]) -> int:
    _check_config(cfg)
    return malloc(size, policy)


def malloc_for_task_scheduler(size: int, policy: int, cfg: dict[str, Any]) -> int:
    return malloc_with_cfg(size, policy, cfg)


def malloc_host(size: int) -> int:
    owner = process()
    owner.need_start()
    return owner.memory.allocator.allocate_host(size)


def malloc_host_with_cfg(size: int, cfg: dict[str, Any]) -> int:
    _check_config(cfg)
    return malloc_host(size)


def free(ptr: int) -> None:
    owner = process()
    owner.need_start()
    owner.memory.allocator.free(ptr, ("device",), "device")


def free_host(ptr: int) -> None:
    owner = process()
    owner.need_start()
    owner.memory.allocator.free(ptr, ("host",), "host")


def get_mem_info(attr: int) -> tuple[int, int]:
    if attr not in _MEMORY_KINDS:
        raise NpuError(codes.INVALID_PARAM, f"memory attribute {attr} is not known", "use aclrtMemAttr 0 to 17")
    device = process().current().device
    if _MEMORY_KINDS[attr] not in ("", device.soc.memory_kind):
        return 0, 0
    return device.free_bytes(), device.info.memory_bytes


def _cache(ptr: int, size: int) -> None:
    if ptr == 0 or size == 0:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the range has address {ptr:#x} and size {size}",
            "pass device memory with at least one byte",
        )
    process().memory.reach(ptr, size, False)


def mem_flush(ptr: int, size: int) -> None:
    _cache(ptr, size)


def mem_invalidate(ptr: int, size: int) -> None:
    _cache(ptr, size)


def pointer_get_attributes(ptr: int) -> dict[str, Any]:
    kind, device = process().memory.registered.locate(ptr)
    return {"location": {"id": device, "type": kind}, "page_size": 4096, "rsv": [0, 0, 0, 0]}


def host_register(ptr: int, size: int, type: int) -> int:
    if type not in (0, 4, 8):
        raise NpuError(codes.INVALID_PARAM, f"register type {type} is not known", "use 0 (mapped)")
    owner = process()
    owner.current()
    return owner.memory.registered.register(ptr, size, write=type != _READ_ONLY)


def host_register_v2(ptr: int, size: int, flag: int) -> None:
    if flag & ~0x1000000E or not flag:
        raise NpuError(
            codes.INVALID_PARAM, f"register flag {flag:#x} is not known", "use 0x2 (mapped) or 0x10000000 (pinned)"
        )
    owner = process()
    owner.current()
    owner.memory.registered.register(ptr, size, write=not flag & _READ_ONLY)


def host_get_device_pointer(ptr: int, flag: int) -> int:
    if flag:
        raise NpuError(codes.INVALID_PARAM, f"flag {flag} is reserved", "pass 0")
    return process().memory.registered.pointer(ptr)


def host_unregister(ptr: int) -> None:
    process().memory.registered.unregister(ptr)
