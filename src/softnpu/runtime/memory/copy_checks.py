"""Every check of copies, fills, words and reductions, those of the manual that need no look at the memory first.

What runs now (`copies.py`) and what runs in stream order (`streams/transfer.py`) call the same functions.
"""

from __future__ import annotations

from softnpu.base.dtypes import DType, element_size, numpy_name
from softnpu.base.errors import NpuError, codes
from softnpu.runtime.memory.atlas import Allocation
from softnpu.runtime.memory.kinds import on_device
from softnpu.runtime.memory.reach import Addresses

# aclrtMemcpyKind
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT_KIND, HOST_TO_BUFFER = range(6)
_KINDS = range(6)
_KINDS_2D = range(HOST_TO_DEVICE, DEFAULT_KIND + 1)
_DESCRIBED_KINDS = range(HOST_TO_DEVICE, DEVICE_TO_DEVICE + 1)
_DIRECTIONS = {
    HOST_TO_HOST: (False, False),
    HOST_TO_DEVICE: (False, True),
    DEVICE_TO_HOST: (True, False),
    DEVICE_TO_DEVICE: (True, True),
    HOST_TO_BUFFER: (False, True),
}
SUM, MAX, MIN, EQUAL = REDUCTIONS = range(10, 14)  # aclrtReduceKind
_CACHE_OPERATIONS = range(4)  # aclrtCmoType
_ALIGN = 64
WORD = 8


# ---- copies ----------------------------------------------------------------------------------------------------------


def check_copy(dst: int, dst_max: int, src: int, count: int, kind: int) -> None:
    """Checks of `memcpy` and `memcpy_async`."""
    if dst == 0 or src == 0:
        raise _null_end(dst)
    if kind not in _KINDS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"copy kind {kind} is not known here",
            f"use a value of aclrtMemcpyKind from {_KINDS.start} to {_KINDS.stop - 1}",
        )
    if count > dst_max:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{count} bytes are to be copied into a destination of {dst_max} bytes",
            "copy at most dest_max bytes",
        )


def _null_end(dst: int) -> NpuError:
    return NpuError(
        codes.INVALID_PARAM,
        f"the {'destination' if dst == 0 else 'source'} pointer is null (0)",
        "check the ret of the allocation",
    )


def check_2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> bool:
    """Checks of `memcpy2d`; False when there is nothing to do."""
    if width == 0 or height == 0:
        return False
    if dst == 0 or src == 0:
        raise _null_end(dst)
    if kind not in _KINDS_2D:
        raise NpuError(
            codes.INVALID_PARAM,
            f"copy kind {kind} is not possible for two-dimensional copies",
            "use 1 to 4 of aclrtMemcpyKind",
        )
    if width > dpitch or width > spitch:
        raise NpuError(
            codes.INVALID_PARAM,
            f"width {width} exceeds a pitch (destination {dpitch}, source {spitch})",
            "a pitch is the distance of two rows in bytes",
        )
    return True


def check_peers(source: Allocation, target: Allocation) -> None:
    """Raise when the ends are on two devices that may not reach each other."""
    a, b = source.device, target.device
    if a is None or b is None or b.index in a.peers or a.index in b.peers:
        return
    raise NpuError(
        codes.RT_PARAM_INVALID,
        f"a copy from device {a.index} to device {b.index} needs peer access, which is off",
        f"call acl.rt.device_enable_peer_access({b.index}, 0) with device {a.index} current, and the other way round",
    )


def check_direction(source: Allocation | None, target: Allocation | None, kind: int) -> None:
    """Strict mode: the kind must fit the pointers."""
    real = (on_device(source), on_device(target))
    if _DIRECTIONS[kind] != real:
        names = ("host", "device")
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"copy kind {kind} says {names[_DIRECTIONS[kind][0]]} to {names[_DIRECTIONS[kind][1]]}, the pointers are {names[real[0]]} to {names[real[1]]}",
            "pass the kind that fits the pointers (strict mode; hardware tolerates it)",
        )


def check_alignment(*addresses: int) -> None:
    """Strict mode: what asynchronous copies need."""
    for address in addresses:
        if address % _ALIGN:
            raise NpuError(
                codes.RT_ADDR_UNALIGNED,
                f"{address:#x} is not a multiple of {_ALIGN}, asynchronous copies need that",
                "allocate 64 bytes more and round the pointer up, as chapter 4.5 of the guide shows (strict mode)",
            )


def refuse_host_copy() -> None:
    """What a stream does when it reaches a host-to-host copy."""
    raise NpuError(
        codes.RT_FEATURE_NOT_SUPPORT,
        "host-to-host copies cannot be asynchronous",
        "use acl.rt.memcpy for copies inside the host",
    )


def check_described(kind: int) -> None:
    """Only some copies can be described."""
    if kind not in _DESCRIBED_KINDS:
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT, f"copy kind {kind} has no descriptors", "use 1, 2 or 3 of aclrtMemcpyKind"
        )


def check_description(desc: int, kind: int, src: int, dst: int, count: int, config: int = 0) -> None:
    """Checks of `set_memcpy_desc`."""
    check_reserved("config", config)
    check_described(kind)
    if not (desc and src and dst and count):
        raise NpuError(
            codes.INVALID_PARAM,
            "a pointer of the copy descriptor or its size is 0",
            "pass descriptor, source, destination and size",
        )


def check_descriptor(desc: int, kind: int, is_descriptor: bool) -> None:
    """What is read where a descriptor should be."""
    if not is_descriptor or kind not in _DESCRIBED_KINDS:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{desc:#x} holds no copy descriptor",
            "fill it with acl.rt.set_memcpy_desc first",
        )


# ---- fills, words, reductions, caches --------------------------------------------------------------------------------


def check_fill(ptr: int, max_count: int, count: int) -> bool:
    """Checks of `memset`; False when there is nothing to do."""
    if count == 0:
        return False
    if ptr == 0:
        raise NpuError(codes.INVALID_PARAM, "the pointer is null (0)", "check the ret of the allocation")
    if count > max_count:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"{count} bytes are to be set in memory of {max_count} bytes",
            "set at most max_count bytes",
        )
    return True


def check_word(addresses: Addresses, addr: int) -> None:
    """Checks of `value_write` and `value_wait`."""
    if addr == 0:
        raise NpuError(codes.INVALID_PARAM, "the address is null (0)", "check the ret of the allocation")
    if addr % WORD:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"address {addr:#x} is not a multiple of {WORD}",
            "pass the address of an 8-byte word of device memory",
        )
    addresses.reach(addr, WORD, True)


def check_write_flag(flag: int) -> None:
    """The flag of `value_write`."""
    if flag:
        raise NpuError(codes.INVALID_PARAM, f"flag {flag} is reserved", "pass 0")


def check_wait_flag(flag: int, flags: range) -> None:
    """The comparison of `value_wait`."""
    if flag not in flags:
        raise NpuError(
            codes.INVALID_PARAM, f"compare flag {flag} is not known", "use 0 (>=), 1 (==), 2 (AND) or 3 (NOR)"
        )


def check_reduce(count: int, kind: int, data_type: int) -> None:
    """Checks of `reduce_async`."""
    if kind not in REDUCTIONS:
        raise NpuError(
            codes.INVALID_PARAM, f"reduce kind {kind} is not known", "use 10 sum, 11 max, 12 min or 13 equal"
        )
    if data_type != DType.BF16 and not numpy_name(data_type):
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT, f"data type {data_type} cannot be reduced", "use a float or integer type"
        )
    size = element_size(data_type)
    if count == 0 or count % size:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"{count} bytes are no whole number of {size}-byte elements", "count is in bytes"
        )


def check_cache_operation(operation: int, size: int) -> None:
    """Checks of `cmo_async`."""
    if operation not in _CACHE_OPERATIONS or size == 0:
        raise NpuError(
            codes.INVALID_PARAM,
            f"cache operation {operation} on {size} bytes is not possible",
            "use aclrtCmoType 0 to 3 and at least one byte",
        )


def check_reserved(name: str, value: int) -> None:
    """An argument that the manual keeps for later."""
    if value:
        raise NpuError(codes.INVALID_PARAM, f"{name} {value:#x} is reserved", "pass 0")
