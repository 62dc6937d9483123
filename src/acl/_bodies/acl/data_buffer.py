"""Bodies of `acl`: data buffers."""

from __future__ import annotations

from acl._bodies._common import raw
from softnpu.base.tensor import DataBuffer
from softnpu.runtime.process import process


def create_data_buffer(data: int, size: int) -> int:
    return process().handles.add("data_buffer", DataBuffer(data, size))


@raw
def destroy_data_buffer(buf: int) -> None:
    process().handles.remove("data_buffer", buf)


def get_data_buffer_addr(buf: DataBuffer) -> int:
    return buf.address


def get_data_buffer_size(buf: DataBuffer) -> int:
    return buf.size & 0xFFFFFFFF


def get_data_buffer_size_v2(buf: DataBuffer) -> int:
    return buf.size


def update_data_buffer(buf: DataBuffer, data: int, size: int) -> None:
    buf.address, buf.size = data, size
