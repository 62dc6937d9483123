"""Values of one type into values of another: 0 to 255 stay what they are, what does not fit is cut off, fractions round.

A 10-bit format keeps its value in the upper ten of 16 bits, as P010 does; the manual does not say. Eight bits of it are the
upper byte, without rounding.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from softnpu.media.doors import cv2
from softnpu.media.pixels.formats import PixelFormat
from softnpu.media.pixels.picture import dtype_of
from softnpu.media.pixels.planes import Array, settle

_LOOKED_UP = ("int8", "float16", "bfloat16")  # many times faster than NumPy's conversion


def same_type(first: PixelFormat, second: PixelFormat) -> bool:
    """Whether the values of both mean the same, bit for bit."""
    return first.type == second.type and first.bits == second.bits


def cast(src: Array, source: PixelFormat, out: Array, target: PixelFormat) -> None:
    """Write values of the type of `source` into `out`, in the type of `target`."""
    if same_type(source, target):
        np.copyto(out, src)
    elif source.bits == 10:
        _from_bytes((src >> 8).astype(np.uint8), out, target)
    elif source.is_8bit:
        _from_bytes(src, out, target)
    else:
        narrow(widen(src, source), out, target)


def _from_bytes(src: Array, out: Array, target: PixelFormat) -> None:
    if target.bits == 10:
        np.left_shift(src, 8, out=out, dtype=np.uint16)
    elif target.type in _LOOKED_UP:
        table = _table(target)
        words = out.view(table.dtype)
        settle(cv2().LUT(src, table, dst=words), words)
    else:
        np.copyto(out, src)


@functools.cache
def _table(target: PixelFormat) -> Array:
    """The bits of each of 0 to 255, as unsigned numbers."""
    table = np.empty(256, dtype_of(target))
    narrow(np.arange(256, dtype=np.float32), table, target)
    return table.view(f"u{table.itemsize}")


def widen(src: Array, source: PixelFormat) -> Array:
    """The values as numbers NumPy and OpenCV calculate with: 16-bit floats become float32."""
    if source.type == "bfloat16":
        return (src.astype(np.uint32) << 16).view(np.float32)
    if source.type == "float16":
        return src.astype(np.float32)
    return src


def narrow(values: Array, out: Array, target: PixelFormat) -> None:
    """Write numbers into `out`, in the type of `target`."""
    if target.type == "bfloat16":
        np.copyto(out, _bfloat16(values))
    elif out.dtype.kind == "f":
        with np.errstate(over="ignore"):
            np.copyto(out, values, casting="unsafe")
    elif values.dtype.kind == "f":
        np.copyto(out, _whole(values, out.dtype), casting="unsafe")
    else:
        low, high = np.iinfo(out.dtype), np.iinfo(values.dtype)
        np.copyto(out, values.clip(max(low.min, high.min), min(low.max, high.max)), casting="unsafe")


def _whole(values: Array, dtype: np.dtype[Any]) -> Array:
    """Rounded, and inside the integer type; not-a-number becomes 0."""
    limits = np.iinfo(dtype)
    low, high = float(limits.min), float(limits.max)
    if dtype.itemsize >= 4:
        values = values.astype(np.float64)
    if dtype.itemsize == 8:
        high = float(np.nextafter(high, 0))  # 2**63 - 1 as a float is 2**63, which does not fit
    rounded = np.rint(values)
    np.clip(rounded, low, high, out=rounded)
    return np.nan_to_num(rounded, copy=False, nan=0.0)


def _bfloat16(values: Array) -> Array:
    """The upper 16 bits of float32, rounded to even."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    bits = single.view(np.uint32)
    rounded = ((bits + (bits >> 16 & 1) + 0x7FFF) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)
