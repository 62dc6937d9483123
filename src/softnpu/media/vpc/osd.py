"""On-screen display: pictures with alpha that are laid over another. What leaves that is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media.doors import cv2
from softnpu.media.pixels.picture import MAX_SIDE, Pixels, Region
from softnpu.media.pixels.planes import Array
from softnpu.media.vpc._canvas import blend, canvas, clip, in_format
from softnpu.media.vpc._opencv import guarded
from softnpu.media.vpc.checks import wrong

ARGB_8888, ARGB_4444, ARGB_1555, ARGB_CLUT2, ARGB_CLUT4 = 14, 25, 33, 41, 42
INVERT_NONE, INVERT_RGB, INVERT_ALPHA, INVERT_ALL = range(4)
_BITS = {ARGB_8888: 32, ARGB_4444: 16, ARGB_1555: 16, ARGB_CLUT2: 2, ARGB_CLUT4: 4}
_COLOURS = 16


@dataclass(frozen=True, eq=False)
class Osd:
    """A picture with alpha to lay over a region: `data` is its memory as (rows, stride) bytes.

    ARGB_8888 has the bytes A, R, G, B; 1555 and 4444 are little-endian words with alpha on top; the table formats have
    the first pixel in the lowest bits. `fg_alpha` and `bg_alpha` are the alpha of 1555 pixels whose bit is 1 and 0.
    """

    region: Region
    form: int
    data: Array
    bg_alpha: int = 0
    fg_alpha: int = 255
    inverted: int = INVERT_NONE

    def __post_init__(self) -> None:
        if self.form not in _BITS:
            raise NpuError(
                codes.API_NOT_SUPPORT,
                f"draw_osd cannot read pictures of the format {self.form}",
                "use ARGB_8888 (14), ARGB_4444 (25), ARGB_1555 (33), ARGB_CLUT2 (41) or ARGB_CLUT4 (42)",
            )
        width, height = self.region.width, self.region.height
        if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
            raise wrong(f"the region to lay over is {width}x{height}", f"use sides from 1 to {MAX_SIDE}")
        data, row = self.data, self.row_bytes
        if data.dtype != np.uint8 or data.ndim != 2 or data.shape[0] < height or data.shape[1] < row:
            raise wrong(
                f"the picture to lay over has the shape {data.shape} in {data.dtype}",
                f"give {height} rows of at least {row} bytes",
            )
        if not (0 <= self.bg_alpha <= 255 and 0 <= self.fg_alpha <= 255):
            raise wrong(f"the alphas are {self.bg_alpha} and {self.fg_alpha}", "use 0 to 255")
        if not INVERT_NONE <= self.inverted <= INVERT_ALL:
            raise wrong(f"osd_inverted_color is {self.inverted}", "use 0 (none), 1 (rgb), 2 (alpha) or 3 (all)")

    @property
    def row_bytes(self) -> int:
        """The smallest stride."""
        return -(-self.region.width * _BITS[self.form] // 8)


def _fields(words: Array, widths: Sequence[int]) -> Array:
    """Bit fields of words, from the top, as channels of 0..255."""
    fields, shift = [], sum(widths)
    for width in widths:
        shift -= width
        most = (1 << width) - 1
        fields.append(((words >> shift & most).astype(np.uint32) * 255 + most // 2) // most)
    return np.stack(fields, axis=2).astype(np.uint8)


def _argb(item: Osd, clut: Sequence[int]) -> Array:
    """The picture to lay over as bytes (rows, columns, 4) in the order a, r, g, b."""
    width = item.region.width
    data = item.data[: item.region.height, : item.row_bytes]
    if item.form == ARGB_8888:
        return data.reshape(data.shape[0], width, 4).copy()
    if item.form in (ARGB_1555, ARGB_4444):
        words = np.ascontiguousarray(data).view("<u2")
        if item.form == ARGB_4444:
            return _fields(words, (4, 4, 4, 4))
        argb = _fields(words, (1, 5, 5, 5))
        argb[:, :, 0] = np.where(argb[:, :, 0], np.uint8(item.fg_alpha), np.uint8(item.bg_alpha))
        return argb
    bits = _BITS[item.form]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    places = (data[:, :, None] >> shifts & ((1 << bits) - 1)).reshape(data.shape[0], -1)[:, :width]
    table = np.array([value & 0xFFFFFFFF for value in clut], np.uint32)
    return _fields(table[places], (8, 8, 8, 8))


def osd(out: Pixels, items: Sequence[Osd], clut: Sequence[int] = ()) -> None:
    """Lay 1 to 100 pictures over, in their order. `clut` has 16 colours 0xAARRGGBB for the table formats."""
    if len(clut) < _COLOURS and any(_BITS[item.form] < 8 for item in items):
        raise wrong(f"the colour table has {len(clut)} entries", f"give {_COLOURS} values 0xAARRGGBB")
    with canvas(out, len(items), "draw_osd") as whole:
        for item in items:
            argb = _argb(item, clut)
            if item.inverted in (INVERT_RGB, INVERT_ALL):
                argb[:, :, 1:] ^= 255
            if item.inverted in (INVERT_ALPHA, INVERT_ALL):
                argb[:, :, 0] ^= 255
            _overlay(whole, item.region, argb)


def _overlay(out: Pixels, region: Region, argb: Array) -> None:
    """Blend what is in the picture and not transparent: overlays are often as large as the picture and mostly empty."""
    left, top, right, bottom = clip(region, out)
    if left >= right or top >= bottom:
        return
    argb = argb[top - region.top : bottom - region.top, left - region.left : right - region.left]
    with guarded():
        x, y, width, height = cv2().boundingRect(np.ascontiguousarray(argb[:, :, 0]))
    if width and height:
        part = argb[y : y + height, x : x + width]
        colours = in_format(part[:, :, 1:], out.format)
        for number in range(len(out.planes)):
            blend(out, number, left + x, top + y, part[:, :, 0], colours)
