"""JPEG encoding of YUV pictures. libjpeg-turbo does it; tables of a program and restart markers go to our own encoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.media import doors
from softnpu.media.codecs.jpeg import baseline
from softnpu.media.codecs.jpeg.tables import JpegTables, check_quality, complete, standard_tables
from softnpu.media.pixels.formats import PixelFormat, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import take

__all__ = ["JpegTables", "bound", "encode", "standard_tables"]

Plane = np.ndarray[Any, Any]

_COMMENT = b"softnpu"
_STEPS = ((1, 1), (2, 1), (2, 2), (1, 2))
_HEADER = 2048  # twice what markers and tables take
# Bytes of a block. The values of a block share its energy, so that the standard's codes take 18 bits for each at the most,
# and at the most one byte of those 18 bits is FF, which is followed by a zero: 64 * (18 / 8 + 1) = 208, and a little for the first.
_BLOCK = 224
_MAX_RESTART = 65535


def encode(
    src: Pixels, quality: int, tables: JpegTables | None = None, comment: bool = False, restart: int = 0
) -> bytes:
    """A baseline JPEG of an 8-bit YUV picture. `restart`: units of blocks between two restart markers, 0 for none."""
    check_quality(quality)
    _check(src.format)
    if not 0 <= restart <= _MAX_RESTART:
        raise NpuError(codes.INVALID_PARAM, f"restart markers every {restart} units", f"use 0 (none) to {_MAX_RESTART}")
    channels = take(src, {})
    planes = [channels[channel] for channel in "yuv" if channel in channels]
    if tables is None and not restart:
        return _fast(planes, src.format.chroma, quality, comment)
    return baseline.encode(planes, src.format.chroma, complete(tables, quality), restart, _COMMENT if comment else b"")


def bound(width: int, height: int, form: PixelFormat | int) -> int:
    """No file of a picture of this size is larger, with the standard's Huffman tables."""
    form = pixel_format(form) if isinstance(form, int) else form
    _check(form)
    x, y = form.chroma
    units = align_up(width, 8 * x) * align_up(height, 8 * y) // (64 * x * y)
    return _HEADER + units * (x * y + (2 if "u" in form.channels else 0)) * _BLOCK


def _check(form: PixelFormat) -> None:
    if form.space != "yuv" or not form.is_8bit or form.chroma not in _STEPS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the JPEG encoder does not take {form.name}",
            "give it an 8-bit YUV picture: NV12, NV21 or a packed 4:2:2 order",
        )


def _fast(planes: list[Plane], steps: tuple[int, int], quality: int, comment: bool) -> bytes:
    luma, chroma = planes[0], planes[1:] or (None, None)
    height, width = luma.shape
    if height % steps[1] or width % steps[0]:
        # The library reads whole sampling units, so the memory behind the view must have them.
        luma = np.pad(luma, ((0, height % steps[1]), (0, width % steps[0])), "edge")[:height, :width]
    file: bytes = doors.simplejpeg().encode_jpeg_yuv_planes(luma, *chroma, quality)
    if not comment:
        return file
    end = 4 + int.from_bytes(file[4:6], "big")  # behind the JFIF segment
    return b"".join([file[:end], b"\xff\xfe", (len(_COMMENT) + 2).to_bytes(2, "big"), _COMMENT, file[end:]])
