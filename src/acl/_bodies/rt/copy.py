"""Bodies of `acl.rt`: copies, fills, stream-ordered words."""

from __future__ import annotations

from softnpu.runtime.memory.copy_checks import check_2d, check_copy, check_fill, check_reserved
from softnpu.runtime.process import process
from softnpu.runtime.streams import transfer
from softnpu.runtime.streams.stream import Stream


def memcpy(dst: int, dst_max: int, src: int, count: int, kind: int) -> None:
    if count == 0:
        return
    owner = process()
    owner.registry.current()  # the parts themselves, here and in memset: small copies are counted in nanoseconds
    check_copy(dst, dst_max, src, count, kind)
    owner.memory.copies.copy(dst, src, count, kind)


def memcpy_async(dst: int, dst_max: int, src: int, count: int, kind: int, stream: Stream) -> None:
    transfer.copy_async(process().memory, dst, dst_max, src, count, kind, stream)


def memcpy_async_with_condition(dst: int, dst_max: int, src: int, count: int, kind: int, stream: Stream) -> None:
    transfer.copy_async(process().memory, dst, dst_max, src, count, kind, stream)


def memset(ptr: int, max_count: int, value: int, count: int) -> None:
    owner = process()
    if check_fill(ptr, max_count, count):
        owner.registry.current()
        owner.memory.copies.fill(ptr, value, count)


def memset_async(ptr: int, max_count: int, value: int, count: int, stream: Stream) -> None:
    if check_fill(ptr, max_count, count):
        transfer.fill_async(process().memory, ptr, value, count, stream)


def memcpy2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> None:
    owner = process()
    if check_2d(dst, dpitch, src, spitch, width, height, kind):
        owner.current()
        owner.memory.copy_2d(dst, dpitch, src, spitch, width, height, kind)


def memcpy2d_async(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: Stream
) -> None:
    if check_2d(dst, dpitch, src, spitch, width, height, kind):
        transfer.copy_2d_async(process().memory, dst, dpitch, src, spitch, width, height, kind, stream)


def get_memcpy_desc_size(kind: int) -> int:
    return transfer.descriptor_size(kind)


def set_memcpy_desc(desc: int, kind: int, src: int, dst: int, count: int, config: int) -> int:
    transfer.write_descriptor(process().memory, desc, kind, src, dst, count, config)
    return desc


def memcpy_async_with_desc(desc: int, kind: int, stream: Stream) -> None:
    transfer.copy_by_descriptor(process().memory, desc, kind, stream)


def cmo_async(src: int, size: int, type: int, stream: Stream) -> None:
    transfer.cache_operation(process().memory, src, size, type, stream)


def value_write(addr: int, value: int, flag: int, stream: Stream) -> None:
    transfer.write_value(process().memory, addr, value, flag, stream)


def value_wait(addr: int, value: int, flag: int, stream: Stream) -> None:
    transfer.wait_value(process().memory, addr, value, flag, stream)


def reduce_async(dst: int, src: int, count: int, kind: int, data_type: int, stream: Stream, reserve: int) -> None:
    check_reserved("reserve", reserve)
    transfer.reduce(process().memory, dst, src, count, kind, data_type, stream)
