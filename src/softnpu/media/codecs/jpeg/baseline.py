"""A baseline JPEG encoder on arrays, for what libjpeg-turbo has no door to: tables of a program and restart markers."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media.codecs.jpeg.tables import ZIGZAG, Complete, Huffman

Array = np.ndarray[Any, Any]

_BAND_UNITS = 1 << 13  # units of blocks whose codes are in memory at a time
_SIZES = np.array([value.bit_length() for value in range(1 << 12)], np.int64)
_END_OF_BLOCK, _SIXTEEN_ZEROS = 0x00, 0xF0


def encode(planes: Sequence[Array], steps: tuple[int, int], tables: Complete, restart: int, comment: bytes) -> bytes:
    """A file of one plane (grey) or of Y, Cb, Cr, whose chroma is divided by `steps`. `restart` counts units between markers, 0 is none."""
    height, width = planes[0].shape
    factors = [steps if len(planes) == 3 else (1, 1), (1, 1), (1, 1)][: len(planes)]
    rows, columns = -(-height // (8 * factors[0][1])), -(-width // (8 * factors[0][0]))
    parts = [
        _coefficients(plane, factor, (rows, columns), tables.quantisation[index])
        for index, (plane, factor) in enumerate(zip(planes, factors, strict=True))
    ]
    _difference(parts, restart)
    owners = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    units = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    start = _header(width, height, factors, tables, restart, comment)
    return b"".join([start, *_scan(units, owners, tables, restart), b"\xff\xd9"])


@functools.cache
def _transform() -> Array:
    """The cosine transform of a block of 64 values, its rows in the order of the file."""
    x = np.arange(8)
    once = np.cos((2 * x[None, :] + 1) * x[:, None] * np.pi / 16) / 2
    once[0] /= np.sqrt(2)
    return np.kron(once, once)[list(ZIGZAG)]


def _coefficients(plane: Array, factor: tuple[int, int], grid: tuple[int, int], table: Sequence[int]) -> Array:
    """Quantised values of a component as (units, blocks of a unit, 64)."""
    (x, y), (rows, columns) = factor, grid
    matrix = (_transform() / np.array(table, np.float64)[list(ZIGZAG), None]).T.astype(np.float32)
    missing = ((0, rows * y * 8 - plane.shape[0]), (0, columns * x * 8 - plane.shape[1]))
    padded = np.pad(plane, missing, "edge") if any(map(any, missing)) else plane
    out = np.empty((rows, columns, y * x, 64), np.int16)
    low, high = np.full(64, -1023, np.float32), np.full(64, 1023, np.float32)
    low[0] = -1024
    step = max(1, _BAND_UNITS // columns)
    for top in range(0, rows, step):
        band = padded[top * y * 8 : (top + step) * y * 8]
        blocks = band.reshape(-1, y, 8, columns, x, 8).transpose(0, 3, 1, 4, 2, 5).reshape(-1, 64)
        values = (blocks.astype(np.float32) - 128) @ matrix
        out[top : top + step] = np.clip(np.rint(values), low, high).reshape(-1, columns, y * x, 64)
    return out.reshape(rows * columns, y * x, 64)


def _difference(parts: list[Array], restart: int) -> None:
    """The first value of each block becomes its difference from that of the block before, afresh after each restart."""
    for part in parts:
        first = part[:, :, 0]
        before = np.concatenate([[0], first.reshape(-1)[:-1]]).reshape(first.shape).astype(np.int16)
        if restart:
            before[::restart, 0] = 0
        part[:, :, 0] -= before


def _scan(units: Array, owners: Array, tables: Complete, restart: int) -> Iterator[bytes]:
    """The coded data, with restart markers where wanted."""
    count = int(owners[-1]) + 1
    books = _Books(_Book(tables.dc[:count]), _Book(tables.ac[:count]))
    step = _BAND_UNITS if not restart else max(restart, _BAND_UNITS // restart * restart)
    carry = (0, 0)
    for start in range(0, len(units), step):
        band = units[start : start + step]
        values, lengths, ends = _codes(band, owners, books)
        last = start + step >= len(units)
        if restart:
            yield _with_restarts(values, lengths, ends, restart, start // restart, last)
        else:
            values, lengths = np.append(carry[0], values), np.append(carry[1], lengths)
            packed, carry = _pack(values, lengths, last)
            yield _stuffed(packed)


class _Book:
    """Codes by component and symbol. A symbol without a code has the length 0."""

    def __init__(self, tables: Sequence[Huffman]) -> None:
        self.codes, self.lengths = np.zeros((2, len(tables), 256), np.int64)
        for index, table in enumerate(tables):
            for symbol, (code, length) in table.codes().items():
                self.codes[index, symbol], self.lengths[index, symbol] = code, length

    def symbol(self, owner: Array, symbol: Any) -> tuple[Array, Array]:
        return self.codes[owner, symbol], self.lengths[owner, symbol]

    def number(self, owner: Array, numbers: Array, high: Any) -> tuple[Array, Array]:
        """The code of each number's size (with `high` above it), and behind it the number in as many bits."""
        size = _SIZES[np.abs(numbers)]
        code, length = self.symbol(owner, size | high)
        tail = np.where(numbers < 0, numbers + (1 << size) - 1, numbers)
        return code << size | tail, np.where(length, length + size, 0)


@dataclass
class _Books:
    dc: _Book
    ac: _Book


def _codes(units: Array, owners: Array, books: _Books) -> tuple[Array, Array, Array]:
    """Code words of units in order, their lengths, and after how many words each unit ends."""
    blocks = units.reshape(-1, 64).astype(np.int64)
    owner = np.tile(owners, len(units))
    at, coefficient = np.nonzero(blocks[:, 1:])
    coefficient += 1
    run = (
        coefficient
        - np.where(np.concatenate([[True], at[1:] != at[:-1]]), 0, np.concatenate([[0], coefficient[:-1]]))
        - 1
    )
    skips = run >> 4
    words = np.bincount(at, skips + 1, len(blocks)).astype(np.int64)  # of each block, without its first and its end
    open_end = blocks[:, 63] == 0
    total = words + 1 + open_end
    first = np.cumsum(total) - total
    position = first[at] + np.cumsum(skips + 1) - (np.cumsum(words) - words)[at]
    values, lengths = np.zeros((2, int(total.sum())), np.int64)

    values[first], lengths[first] = books.dc.number(owner, blocks[:, 0], 0)
    values[position], lengths[position] = books.ac.number(owner[at], blocks[at, coefficient], (run & 15) << 4)
    for back in (1, 2, 3):
        some = np.flatnonzero(skips >= back)
        where = position[some] - back
        values[where], lengths[where] = books.ac.symbol(owner[at[some]], _SIXTEEN_ZEROS)
    ends = (first + total - 1)[open_end]
    values[ends], lengths[ends] = books.ac.symbol(owner[open_end], _END_OF_BLOCK)
    if not lengths.all():
        raise NpuError(
            codes.INVALID_PARAM,
            "a Huffman table has no code for a symbol that this picture needs",
            "give tables with all 12 DC and 162 AC symbols",
        )
    return values, lengths, np.cumsum(total)[len(owners) - 1 :: len(owners)]


def _pack(values: Array, lengths: Array, last: bool) -> tuple[bytes, tuple[int, int]]:
    """Words of up to 27 bits in a row. What fills no byte is filled with ones at the end, else handed on."""
    offsets = np.cumsum(lengths) - lengths
    bits = int(lengths.sum())
    wide = values.astype(np.uint64) << (64 - (offsets & 31) - lengths).astype(np.uint64)
    index = offsets >> 5
    count = (bits >> 5) + 2
    # The bits of two words never meet, so that a sum is a union; below 2**53 it is exact.
    both = np.bincount(index, (wide >> np.uint64(32)).astype(np.float64), count)
    both += np.bincount(index + 1, (wide & np.uint64(0xFFFFFFFF)).astype(np.float64), count)
    data = both.astype(np.uint64).astype(">u4").tobytes()
    whole, rest = divmod(bits, 8)
    if not rest:
        return data[:whole], (0, 0)
    if last:
        return data[:whole] + bytes([data[whole] | (0xFF >> rest)]), (0, 0)
    return data[:whole], (data[whole] >> (8 - rest), rest)


def _stuffed(data: bytes) -> bytes:
    return data.replace(b"\xff", b"\xff\x00")


def _with_restarts(values: Array, lengths: Array, ends: Array, restart: int, number: int, last: bool) -> bytes:
    """Each interval filled with ones to whole bytes, and a marker between two."""
    bounds = ends[restart - 1 :: restart]
    if not len(bounds) or bounds[-1] != ends[-1]:
        bounds = np.append(bounds, ends[-1])
    bits = np.add.reduceat(lengths, np.append(0, bounds[:-1]))
    fill = -bits % 8
    packed, _ = _pack(np.insert(values, bounds, (1 << fill) - 1), np.insert(lengths, bounds, fill), True)
    stops = np.cumsum(bits + fill) // 8
    parts = []
    for index, (start, stop) in enumerate(zip(np.append(0, stops[:-1]).tolist(), stops.tolist(), strict=True)):
        marker = b"" if last and index == len(stops) - 1 else bytes([0xFF, 0xD0 + (number + index) % 8])
        parts.append(_stuffed(packed[start:stop]) + marker)
    return b"".join(parts)


def _segment(marker: int, contents: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(contents) + 2) + contents


def _header(
    width: int, height: int, factors: list[tuple[int, int]], tables: Complete, restart: int, comment: bytes
) -> bytes:
    count = len(factors)
    quantisation, dc, ac = (_numbered(rows[:count]) for rows in (tables.quantisation, tables.dc, tables.ac))
    parts = [b"\xff\xd8", _segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")]
    if comment:
        parts.append(_segment(0xFE, comment))
    for table, number in quantisation[1].items():
        parts.append(_segment(0xDB, bytes([number, *(table[index] for index in ZIGZAG)])))
    frame = struct.pack(">BHHB", 8, height, width, count)
    for index, (x, y) in enumerate(factors):
        frame += bytes([index + 1, x << 4 | y, quantisation[0][index]])
    baseline = len(dc[1]) <= 2 and len(ac[1]) <= 2  # three Huffman tables make the file extended sequential
    parts.append(_segment(0xC0 if baseline else 0xC1, frame))
    for kind, (_, books) in enumerate((dc, ac)):
        for book, number in books.items():
            parts.append(_segment(0xC4, bytes([kind << 4 | number, *book.bits, *book.values])))
    if restart:
        parts.append(_segment(0xDD, struct.pack(">H", restart)))
    choice = b"".join(bytes([index + 1, dc[0][index] << 4 | ac[0][index]]) for index in range(count))
    parts.append(_segment(0xDA, bytes([count]) + choice + b"\0\x3f\0"))
    return b"".join(parts)


def _numbered(tables: Sequence[Any]) -> tuple[list[int], dict[Any, int]]:
    """The number of the table of each component; equal tables have one number."""
    numbers: dict[Any, int] = {}
    for table in tables:
        numbers.setdefault(table, len(numbers))
    return [numbers[table] for table in tables], numbers
