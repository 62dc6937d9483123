"""Copies, fills, words and reductions in stream order. A task checks its memory again when it runs."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softnpu.base.dtypes import DType
from softnpu.runtime.memory import copy_checks as checks
from softnpu.runtime.memory.copy_checks import DEFAULT_KIND, HOST_TO_BUFFER, HOST_TO_HOST, WORD
from softnpu.runtime.memory.memory import Memory
from softnpu.runtime.memory.reach import ShortRead
from softnpu.runtime.streams.stream import Stream

if TYPE_CHECKING:
    import numpy

_INLINE = 128 << 10  # below this a copy costs less than waking a thread
_INLINE_ROWS = 64
_DESCRIPTOR = struct.Struct("<8sQQQQ24x")
_MAGIC = b"SNPUCPY1"


def copy_async(memory: Memory, dst: int, dst_max: int, src: int, count: int, kind: int, stream: Stream) -> None:
    """`memcpy_async`: host-to-host is accepted and fails when the stream reaches it, as the manual says."""
    if count == 0:
        return
    checks.check_copy(dst, dst_max, src, count, kind)
    detail: dict[str, object] = {"bytes": count, "kind": kind}
    if kind == HOST_TO_HOST or (kind == DEFAULT_KIND and memory.addresses.both_on_host(dst, src)):
        stream.submit(checks.refuse_host_copy, "MEMCPY_ASYNC", inline=True, detail=detail)
        return
    memory.reach(dst, count, True)
    with contextlib.suppress(ShortRead):  # copied as far as it goes
        memory.reach(src, count, False)
    if memory.strict:
        checks.check_alignment(dst, src)
    if kind == HOST_TO_BUFFER:
        data = memory.snapshot(src, count)
        stream.submit(lambda: memory.store(dst, data), "MEMCPY_ASYNC", inline=count <= _INLINE, detail=detail)
        return
    stream.submit(lambda: memory.copy(dst, src, count, kind), "MEMCPY_ASYNC", inline=count <= _INLINE, detail=detail)


def fill_async(memory: Memory, ptr: int, value: int, count: int, stream: Stream) -> None:
    """`memset_async`."""
    memory.reach(ptr, count, True)
    stream.submit(
        lambda: memory.fill(ptr, value, count), "MEMSET_ASYNC", inline=count <= _INLINE, detail={"bytes": count}
    )


def copy_2d_async(
    memory: Memory, dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: Stream
) -> None:
    """`memcpy2d_async`."""
    memory.reach(dst, dpitch * (height - 1) + width, True)
    memory.reach(src, spitch * (height - 1) + width, False)
    work = lambda: memory.copy_2d(dst, dpitch, src, spitch, width, height, kind)  # noqa: E731
    stream.submit(
        work,
        "MEMCPY2D_ASYNC",
        inline=width * height <= _INLINE and height <= _INLINE_ROWS,
        detail={"bytes": width * height},
    )


def descriptor_size(kind: int) -> int:
    """Bytes of a copy descriptor."""
    checks.check_described(kind)
    return _DESCRIPTOR.size


def write_descriptor(memory: Memory, desc: int, kind: int, src: int, dst: int, count: int, config: int) -> None:
    """Fill a copy descriptor in memory."""
    checks.check_description(desc, kind, src, dst, count, config)
    memory.store(desc, _DESCRIPTOR.pack(_MAGIC, kind, src, dst, count))


def copy_by_descriptor(memory: Memory, desc: int, kind: int, stream: Stream) -> None:
    """Copy what a descriptor says when the stream reaches it."""
    checks.check_described(kind)
    memory.reach(desc, _DESCRIPTOR.size, False)

    def work() -> None:
        magic, kind, src, dst, count = _DESCRIPTOR.unpack(memory.read(desc, _DESCRIPTOR.size))
        checks.check_descriptor(desc, kind, magic == _MAGIC)
        memory.copy(dst, src, count, kind)

    stream.submit(work, "MEMCPY_DESC", inline=True)


def write_value(memory: Memory, addr: int, value: int, flag: int, stream: Stream) -> None:
    """`value_write`: store an 8-byte word in stream order."""
    checks.check_word(memory.addresses, addr)
    checks.check_write_flag(flag)
    stream.submit(lambda: memory.store(addr, value.to_bytes(WORD, "little")), "VALUE_WRITE", inline=True)


def wait_value(memory: Memory, addr: int, value: int, flag: int, stream: Stream) -> None:
    """`value_wait`: hold the stream until the word compares as asked."""
    checks.check_word(memory.addresses, addr)
    tests: tuple[Callable[[int], bool], ...] = (
        lambda word: word >= value,
        lambda word: word == value,
        lambda word: word & value != 0,
        lambda word: ~(word | value) & (1 << 64) - 1 != 0,
    )
    checks.check_wait_flag(flag, range(len(tests)))
    holds = tests[flag]

    def ready(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.00002
        while True:
            memory.reach(addr, WORD, False)
            if holds(ctypes.c_uint64.from_address(addr).value):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.001)

    stream.submit(lambda: stream.poll(ready, None), "VALUE_WAIT", inline=False)


def cache_operation(memory: Memory, src: int, size: int, operation: int, stream: Stream) -> None:
    """`cmo_async`: caches are the machine's own affair, the range must exist."""
    checks.check_cache_operation(operation, size)
    memory.reach(src, size, False)
    stream.submit(lambda: None, "CMO", inline=True)


def reduce(memory: Memory, dst: int, src: int, count: int, kind: int, data_type: int, stream: Stream) -> None:
    """`reduce_async`: dst = dst ∘ src over `count` bytes."""
    checks.check_reduce(count, kind, data_type)
    memory.reach(dst, count, True)
    memory.reach(src, count, False)
    stream.submit(lambda: _reduce(memory, dst, src, count, kind, data_type), "REDUCE_ASYNC", detail={"bytes": count})


def _reduce(memory: Memory, dst: int, src: int, count: int, kind: int, data_type: int) -> None:
    import numpy

    memory.reach(dst, count, True)
    left, right = memory.array(dst, count, data_type), memory.array(src, count, data_type)
    functions: dict[int, Any] = {
        checks.SUM: numpy.add,
        checks.MAX: numpy.maximum,
        checks.MIN: numpy.minimum,
        checks.EQUAL: numpy.equal,
    }
    with numpy.errstate(all="ignore"):  # an overflow is a value here (infinity), not a warning of the program's
        if data_type == DType.BF16:
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
