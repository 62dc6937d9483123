"""The `.om` container: IMOD header, partition table, partitions. Knows nothing of what the partitions mean."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from softnpu.base.errors import NpuError, codes
from softnpu.graph.inout import damaged

MODEL_DEF, WEIGHTS_DATA, TASK_INFO, TBE_KERNELS, CUST_AICPU_KERNELS = range(5)
MODEL_INOUT_INFO = 8
HEADER_BYTES = 256
_MAGIC = 0x444F4D49
_VERSION = 0x20000000
_MAX_PARTITIONS = 8  # a base of 5, 4, 3 or 1 plus at most 3 optional ones
_LENGTH, _ENCRYPTED, _TYPE, _NAME, _MODEL_NUM, _PLATFORM, _LENGTH64, _DYNAMIC = 76, 80, 82, 84, 156, 160, 184, 193
Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Header:
    """What the first 256 bytes say."""

    name: str
    length: int
    platform: str
    dynamic: bool
    wide: bool


def read_header(data: memoryview, total: int | None = None) -> Header:
    """Check and read the header of a file of `total` bytes (default: as many as are given)."""
    total = len(data) if total is None else total
    if len(data) < HEADER_BYTES:
        raise damaged(f"{len(data)} bytes are less than a header of {HEADER_BYTES}")
    magic, size = struct.unpack_from("<II", data)
    if magic != _MAGIC:
        raise damaged("it does not begin with IMOD, so it is no .om file")
    if size != HEADER_BYTES:
        raise damaged(f"the header says it has {size} bytes")
    if data[_ENCRYPTED]:
        raise NpuError(codes.GE_PARAM_INVALID, "the model is encrypted", "convert it without encryption")
    if data[_TYPE]:
        raise NpuError(
            codes.GE_PARAM_INVALID, f"model type {data[_TYPE]} is not supported", "use a model that atc wrote"
        )
    (short,), (long,) = struct.unpack_from("<I", data, _LENGTH), struct.unpack_from("<Q", data, _LENGTH64)
    length = long or short
    if length != total - HEADER_BYTES:
        raise damaged(f"the header promises {length} bytes after it, {total - HEADER_BYTES} are there")
    name = bytes(data[_NAME : _NAME + 32]).split(b"\0")[0].decode("utf-8", "replace")
    platform = bytes(data[_PLATFORM : _PLATFORM + 20]).split(b"\0")[0].decode("utf-8", "replace")
    return Header(name, length, platform, bool(data[_DYNAMIC]), bool(long))


def read(data: Bytes) -> tuple[Header, dict[int, memoryview]]:
    """Header and partitions by type; views of the input, nothing is copied."""
    view = memoryview(data).cast("B")
    header = read_header(view)
    body = view[HEADER_BYTES:]
    head, entry = ("<II", "<IIQQ") if header.wide else ("<I", "<III")
    start = struct.calcsize(head)
    if len(body) < start:
        raise damaged("the partition table is cut off")
    count = struct.unpack_from(head, body)[0]
    if not 1 <= count <= _MAX_PARTITIONS:
        raise damaged(f"it claims {count} partitions")
    base = start + count * struct.calcsize(entry)
    if base > len(body):
        raise damaged("the partition table is cut off")
    partitions: dict[int, memoryview] = {}
    for index in range(count):
        row = struct.unpack_from(entry, body, start + index * struct.calcsize(entry))
        kind, offset, size = row[0], row[-2], row[-1]
        if kind in partitions:
            raise damaged(f"partition {kind} is there twice")
        if offset > len(body) - base or size > len(body) - base - offset:
            raise damaged(f"partition {kind} of {size} bytes reaches past the end of the file")
        partitions[kind] = body[base + offset : base + offset + size]
    if MODEL_DEF not in partitions:
        raise damaged("there is no model partition")
    return header, partitions


def write(
    path: Path, name: str, platform: str, dynamic: bool, partitions: Sequence[tuple[int, Sequence[Bytes]]]
) -> None:
    """Write a file under a temporary name and rename it; a partition is given in pieces so that weights need no copy."""
    sizes = [sum(len(memoryview(piece).cast("B")) for piece in pieces) for _, pieces in partitions]
    table = bytearray(struct.pack("<II", len(partitions), 0))
    offset = 0
    for (kind, _), size in zip(partitions, sizes, strict=True):
        table += struct.pack("<IIQQ", kind, 0, offset, size)
        offset += size
    header = _header(name, platform, dynamic, len(table) + offset)
    write_pieces(path, [header, table, *(piece for _, pieces in partitions for piece in pieces)])


def write_pieces(path: Path, pieces: Sequence[Bytes]) -> None:
    """Write pieces one after the other under a temporary name, then rename."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            for piece in pieces:
                file.write(piece)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _header(name: str, platform: str, dynamic: bool, length: int) -> bytearray:
    header = bytearray(HEADER_BYTES)
    struct.pack_into("<III", header, 0, _MAGIC, HEADER_BYTES, _VERSION)
    struct.pack_into("<I", header, _LENGTH, length if length < 1 << 32 else 0)
    header[81] = 1  # is_checksum, as atc writes it
    text = name.encode("utf-8")[:31]
    header[_NAME : _NAME + len(text)] = text
    struct.pack_into("<I", header, _MODEL_NUM, 1)
    version = platform.encode("ascii", "replace")[:19]
    header[_PLATFORM : _PLATFORM + len(version)] = version
    struct.pack_into("<Q", header, _LENGTH64, length)
    header[_DYNAMIC] = int(dynamic)
    return header
