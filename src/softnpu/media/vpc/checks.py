"""What picture functions ask of their pictures and numbers before they begin, and what borders are called.

Borders are numbered 0 constant, 1 replicate, 2 reflect, 3 reflect-101, 4 wrap; the chip's filters know the first two, and
OpenCV's no wrap.
"""

from __future__ import annotations

import math

from softnpu.base.errors import NpuError, codes
from softnpu.media.doors import cv2
from softnpu.media.pixels.formats import PixelFormat
from softnpu.media.pixels.picture import Pixels, dtype_of, plane_shape

CONSTANT, REPLICATE, REFLECT, REFLECT_101, WRAP = range(5)
ARITHMETIC = frozenset({"uint8", "uint16", "int16", "float32", "float64"})
_BORDER_NAMES = ("BORDER_CONSTANT", "BORDER_REPLICATE", "BORDER_REFLECT", "BORDER_REFLECT_101", "BORDER_WRAP")


def wrong(text: str, remedy: str) -> NpuError:
    """The error for an argument that cannot be right."""
    return NpuError(codes.INVALID_PARAM, text, remedy)


def check_planes(pixels: Pixels, label: str) -> None:
    """Raise unless the arrays of a picture are what its format and size say."""
    form = pixels.format
    if pixels.width < 1 or pixels.height < 1:
        raise wrong(f"the {label} is {pixels.width}x{pixels.height}", "give it a width and a height of at least 1")
    shapes = [plane_shape(form, index, pixels.width, pixels.height) for index in range(len(form.planes))]
    if [plane.shape for plane in pixels.planes] != shapes:
        have = [plane.shape for plane in pixels.planes]
        raise wrong(
            f"the {label} ({form.name}, {pixels.width}x{pixels.height}) has planes of the shapes {have} instead of {shapes}",
            "give one array for each plane of the format",
        )
    if any(plane.dtype != dtype_of(form) for plane in pixels.planes):
        raise wrong(f"the {label} holds other values than its format {form.name} says", f"use {dtype_of(form)}")


def check_type(form: PixelFormat, function: str, types: frozenset[str] = ARITHMETIC) -> None:
    """Raise when there is no arithmetic for the values of a format."""
    if form.type not in types:
        raise NpuError(
            codes.API_NOT_SUPPORT,
            f"{function} cannot work on pictures of the format {form.name}",
            f"convert the picture first; formats of {', '.join(sorted(types))} values can be used",
        )


def check_formats(src: Pixels, out: Pixels, function: str) -> None:
    """Raise unless both pictures are sound and of one format."""
    check_planes(src, f"input of {function}")
    check_planes(out, f"output of {function}")
    if src.format is not out.format:
        raise wrong(
            f"{function} writes the format it reads, but the input is {src.format.name} and the output {out.format.name}",
            "give both pictures the same format",
        )


def check_same(src: Pixels, out: Pixels, function: str) -> None:
    """Raise unless both pictures are sound, of one format and of one size."""
    check_formats(src, out, function)
    if (src.width, src.height) != (out.width, out.height):
        raise wrong(
            f"{function} keeps the size, but the input is {src.width}x{src.height} and the output {out.width}x{out.height}",
            "give both pictures the same width and height",
        )


def finite(label: str, *values: float) -> None:
    """Raise when a number is infinite or none at all."""
    if not all(math.isfinite(value) for value in values):
        raise wrong(f"the {label} is {values if len(values) > 1 else values[0]}", "use finite numbers")


def border_code(border: int, last: int = REFLECT_101) -> int:
    """OpenCV's number of a border type; `last` is the highest one that makes sense to the caller."""
    if not 0 <= border <= last:
        raise wrong(f"the border type {border} is unknown here", f"use 0 (constant), 1 (replicate) … {last}")
    return int(getattr(cv2(), _BORDER_NAMES[border]))
