"""The image pyramid: each level is the one before, filtered and with every second row and column left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media.doors import cv2
from softnpu.media.pixels.formats import YUV_400
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import Array
from softnpu.media.vpc._opencv import BLACK, guarded
from softnpu.media.vpc.checks import REFLECT, border_code, check_planes, finite, wrong

MAX_LEVELS = 4
MAX_DIVISOR = 1 << 30
_MAX_SIDE = 2048
_LEAST = (20, 12)  # of the source of one level; each level more doubles it
_AROUND = 2
_BINOMIAL = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1])
BINOMIAL_DIVISOR = 256


def limits(width: int, height: int, levels: int, divisor: int) -> None:
    """Raise unless a pyramid of so many levels can be made of such a picture, with such a divisor."""
    if not 1 <= levels <= MAX_LEVELS:
        raise wrong(f"a pyramid of {levels} levels is asked for", f"use 1 to {MAX_LEVELS}")
    least = (_LEAST[0] << (levels - 1), _LEAST[1] << (levels - 1))
    if not (least[0] <= width <= _MAX_SIDE and least[1] <= height <= _MAX_SIDE):
        raise wrong(
            f"the picture of {width}x{height} does not suit a pyramid of {levels} levels",
            f"use {least[0]}x{least[1]} to {_MAX_SIDE}x{_MAX_SIDE}",
        )
    if not 1 <= divisor <= MAX_DIVISOR or divisor & (divisor - 1):
        raise wrong(f"the divisor is {divisor}", "use a power of two")


def _check_pictures(src: Pixels, outs: Sequence[Pixels]) -> None:
    check_planes(src, "input of pyrdown")
    width, height = src.width, src.height
    for level, out in enumerate(outs, 1):
        check_planes(out, f"output {level} of pyrdown")
        width, height = (width + 1) // 2, (height + 1) // 2
        if (out.width, out.height) != (width, height):
            raise wrong(
                f"output {level} of pyrdown is {out.width}x{out.height}, the level has {width}x{height}",
                "halve width and height from level to level, rounded up",
            )
    for picture in (src, *outs):
        if picture.format.value != YUV_400:
            raise NpuError(
                codes.API_NOT_SUPPORT, f"pyrdown cannot work on {picture.format.name}", "use YUV_400 pictures"
            )


def _weights(kernel: Array | None, divisor: int) -> Array:
    whole = _BINOMIAL if kernel is None else np.asarray(kernel)
    if whole.shape != (5, 5) or not np.isfinite(whole).all():
        raise wrong(f"the kernel has the shape {whole.shape}", "give 5x5 finite weights, or None for the binomial ones")
    return (whole / divisor).astype(np.float32)


def pyrdown(
    src: Pixels,
    outs: Sequence[Pixels],
    kernel: Array | None = None,
    divisor: int = BINOMIAL_DIVISOR,
    border: int = 1,
    value: Sequence[float] = BLACK,
) -> None:
    """Write the levels of a YUV400 picture: the sum below the kernel divided by `divisor`, rounded to the nearest, at every second place.

    The picture is continued by two pixels: border 0 constant, 1 replicate, 2 reflect. Without a kernel the weights are
    1-4-6-4-1 times itself; a divisor of 256 keeps the brightness.
    """
    _check_pictures(src, outs)
    limits(src.width, src.height, len(outs), divisor)
    finite("border value", *value)
    weights, code = _weights(kernel, divisor), border_code(border, REFLECT)
    plane = src.planes[0]
    for out in outs:
        with guarded():
            wide = cv2().copyMakeBorder(
                plane, _AROUND, _AROUND, _AROUND, _AROUND, code, value=(float(value[0]) if value else 0.0,)
            )
            smooth = cv2().filter2D(wide, -1, weights)
        plane = smooth[_AROUND:-_AROUND:2, _AROUND:-_AROUND:2]
        out.planes[0][...] = plane
