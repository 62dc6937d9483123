"""Copies, fills, words and reductions in stream order. A task checks its memory again when it runs."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softnpu.base.dtypes import element_size, numpy_name
from softnpu.base.errors import NpuError, codes
from softnpu.runtime.memory import DEFAULT_KIND, HOST_TO_BUFFER, HOST_TO_HOST, Memory, ShortRead
from softnpu.runtime.stream import Stream

if TYPE_CHECKING:
    import numpy

_INLINE = 128 << 10  # below this a copy costs less than waking a thread
_ALIGN = 64
_DESCRIPTOR = struct.Struct("<8sQQQQ24x")
_MAGIC = b"SNPUCPY1"
_DESCRIBED_KINDS = range(1, 4)
_WORD = 8
_BF16 = 27
SUM, MAX, MIN, EQUAL = range(10, 14)


def copy_async(memory: Memory, dst: int, dst_max: int, src: int, count: int, kind: int, stream: Stream) -> None:
    """`memcpy_async`: host-to-host is accepted and fails when the stream reaches it, as the manual says."""
    if count == 0:
        return
    memory.check_copy(dst, dst_max, src, count, kind)
    detail: dict[str, object] = {"bytes": count, "kind": kind}
    if kind == HOST_TO_HOST or (kind == DEFAULT_KIND and memory.both_on_host(dst, src)):
        stream.submit(_no_host_copy, "MEMCPY_ASYNC", inline=True, detail=detail)
        return
    memory.reach(dst, count, True)
    with contextlib.suppress(ShortRead):  # copied as far as it goes
        memory.reach(src, count, False)
    if memory.strict:
        _check_alignment(dst, src)
    if kind == HOST_TO_BUFFER:
        data = memory.snapshot(src, count)
        stream.submit(lambda: memory.store(dst, data), "MEMCPY_ASYNC", inline=count <= _INLINE, detail=detail)
        return
    stream.submit(lambda: memory.copy(dst, src, count, kind), "MEMCPY_ASYNC", inline=count <= _INLINE, detail=detail)


def _no_host_copy() -> None:
    raise NpuError(
        codes.RT_FEATURE_NOT_SUPPORT,
        "host-to-host copies cannot be asynchronous",
        "use acl.rt.memcpy for copies inside the host",
    )


def _check_alignment(*addresses: int) -> None:
    for address in addresses:
        if address % _ALIGN:
            raise NpuError(
                codes.RT_ADDR_UNALIGNED,
                f"{address:#x} is not a multiple of {_ALIGN}, asynchronous copies need that",
                "allocate 64 bytes more and round the pointer up, as chapter 4.5 of the guide shows (strict mode)",
            )


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


def fill_async(memory: Memory, ptr: int, value: int, count: int, stream: Stream) -> None:
    """`memset_async`."""
    memory.reach(ptr, count, True)
    stream.submit(
        lambda: memory.fill(ptr, value, count), "MEMSET_ASYNC", inline=count <= _INLINE, detail={"bytes": count}
    )


def check_2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> bool:
    """Checks of `memcpy2d`; False when there is nothing to do."""
    if width == 0 or height == 0:
        return False
    if dst == 0 or src == 0:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the {'destination' if dst == 0 else 'source'} pointer is null (0)",
            "check the ret of the allocation",
        )
    if kind not in range(1, 5):
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


def copy_2d_async(
    memory: Memory, dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: Stream
) -> None:
    """`memcpy2d_async`."""
    memory.reach(dst, dpitch * (height - 1) + width, True)
    memory.reach(src, spitch * (height - 1) + width, False)
    work = lambda: memory.copy_2d(dst, dpitch, src, spitch, width, height, kind)  # noqa: E731
    stream.submit(
        work, "MEMCPY2D_ASYNC", inline=width * height <= _INLINE and height <= _ALIGN, detail={"bytes": width * height}
    )


def descriptor_size(kind: int) -> int:
    """Bytes of a copy descriptor."""
    if kind not in _DESCRIBED_KINDS:
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT, f"copy kind {kind} has no descriptors", "use 1, 2 or 3 of aclrtMemcpyKind"
        )
    return _DESCRIPTOR.size


def write_descriptor(memory: Memory, desc: int, kind: int, src: int, dst: int, count: int) -> None:
    """Fill a copy descriptor in memory."""
    descriptor_size(kind)
    if not (desc and src and dst and count):
        raise NpuError(
            codes.INVALID_PARAM,
            "a pointer of the copy descriptor or its size is 0",
            "pass descriptor, source, destination and size",
        )
    memory.store(desc, _DESCRIPTOR.pack(_MAGIC, kind, src, dst, count))


def copy_by_descriptor(memory: Memory, desc: int, kind: int, stream: Stream) -> None:
    """Copy what a descriptor says when the stream reaches it."""
    descriptor_size(kind)
    memory.reach(desc, _DESCRIPTOR.size, False)

    def work() -> None:
        magic, kind, src, dst, count = _DESCRIPTOR.unpack(memory.read(desc, _DESCRIPTOR.size))
        if magic != _MAGIC or kind not in _DESCRIBED_KINDS:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{desc:#x} holds no copy descriptor",
                "fill it with acl.rt.set_memcpy_desc first",
            )
        memory.copy(dst, src, count, kind)

    stream.submit(work, "MEMCPY_DESC", inline=True)


def _check_word(memory: Memory, addr: int) -> None:
    if addr == 0:
        raise NpuError(codes.INVALID_PARAM, "the address is null (0)", "check the ret of the allocation")
    if addr % _WORD:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"address {addr:#x} is not a multiple of {_WORD}",
            "pass the address of an 8-byte word of device memory",
        )
    memory.reach(addr, _WORD, True)


def write_value(memory: Memory, addr: int, value: int, flag: int, stream: Stream) -> None:
    """`value_write`: store an 8-byte word in stream order."""
    _check_word(memory, addr)
    if flag:
        raise NpuError(codes.INVALID_PARAM, f"flag {flag} is reserved", "pass 0")
    stream.submit(lambda: memory.store(addr, value.to_bytes(_WORD, "little")), "VALUE_WRITE", inline=True)


def wait_value(memory: Memory, addr: int, value: int, flag: int, stream: Stream) -> None:
    """`value_wait`: hold the stream until the word compares as asked."""
    _check_word(memory, addr)
    tests: tuple[Callable[[int], bool], ...] = (
        lambda word: word >= value,
        lambda word: word == value,
        lambda word: word & value != 0,
        lambda word: ~(word | value) & (1 << 64) - 1 != 0,
    )
    if flag not in range(len(tests)):
        raise NpuError(
            codes.INVALID_PARAM, f"compare flag {flag} is not known", "use 0 (>=), 1 (==), 2 (AND) or 3 (NOR)"
        )
    holds = tests[flag]

    def ready(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.00002
        while True:
            memory.reach(addr, _WORD, False)
            if holds(ctypes.c_uint64.from_address(addr).value):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.001)

    stream.submit(lambda: stream.poll(ready, None), "VALUE_WAIT", inline=False)


def reduce(memory: Memory, dst: int, src: int, count: int, kind: int, data_type: int, stream: Stream) -> None:
    """`reduce_async`: dst = dst ∘ src over `count` bytes."""
    if kind not in range(SUM, EQUAL + 1):
        raise NpuError(
            codes.INVALID_PARAM, f"reduce kind {kind} is not known", "use 10 sum, 11 max, 12 min or 13 equal"
        )
    if data_type != _BF16 and not numpy_name(data_type):
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT, f"data type {data_type} cannot be reduced", "use a float or integer type"
        )
    size = element_size(data_type)
    if count == 0 or count % size:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"{count} bytes are no whole number of {size}-byte elements", "count is in bytes"
        )
    memory.reach(dst, count, True)
    memory.reach(src, count, False)
    stream.submit(lambda: _reduce(memory, dst, src, count, kind, data_type), "REDUCE_ASYNC", detail={"bytes": count})


def _reduce(memory: Memory, dst: int, src: int, count: int, kind: int, data_type: int) -> None:
    import numpy

    memory.reach(dst, count, True)
    left, right = memory.array(dst, count, data_type), memory.array(src, count, data_type)
    functions: dict[int, Any] = {SUM: numpy.add, MAX: numpy.maximum, MIN: numpy.minimum, EQUAL: numpy.equal}
    with numpy.errstate(all="ignore"):  # an overflow is a value here (infinity), not a warning of the program's
        if data_type == _BF16:
            left[...] = _narrow(functions[kind](_widen(left), _widen(right)).astype(numpy.float32))
        else:
            left[...] = functions[kind](left, right)


def _widen(bits: numpy.ndarray[Any, Any]) -> Any:
    import numpy

    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def _narrow(values: numpy.ndarray[Any, Any]) -> Any:
    """Round to the nearest bfloat16, ties to even; NaN stays NaN."""
    import numpy

    bits = values.view(numpy.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
    return numpy.where(numpy.isnan(values), numpy.uint16(0x7FC0), rounded)
