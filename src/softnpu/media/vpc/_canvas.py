"""A picture to draw on: in separate planes, with colours in its own format, blended by the share of its pixels that are painted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from softnpu.media.pixels import csc
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.formats import RGB_888, PixelFormat, PlaneSpec, pixel_format
from softnpu.media.pixels.picture import Pixels, Region
from softnpu.media.pixels.planes import Array
from softnpu.media.vpc._opencv import CHANNEL_INDEX, unpacked
from softnpu.media.vpc.checks import check_planes, check_type, wrong

MAX_ITEMS = 100
_BYTES = frozenset({"uint8"})
_YUV_PACKED_444 = 11


@contextmanager
def canvas(out: Pixels, count: int, function: str) -> Iterator[Pixels]:
    """The picture to draw on, in separate planes; a packed one is put together afterwards."""
    check_planes(out, f"picture of {function}")
    check_type(out.format, function, _BYTES)
    if not 1 <= count <= MAX_ITEMS:
        raise wrong(f"{function} is given {count} items", f"give 1 to {MAX_ITEMS}")
    loose = unpacked(out)
    yield loose
    if loose is not out:
        convert(loose, out.format, csc.matrix(csc.DEFAULT), out)


def in_format(rgb: Array, form: PixelFormat) -> Array:
    """R, G, B values (rows, columns, 3) as the values of a picture's format, in the order of CHANNEL_INDEX."""
    if form.space == "rgb":
        return rgb
    height, width = rgb.shape[:2]
    picture = Pixels(pixel_format(RGB_888), [np.ascontiguousarray(rgb)], width, height)
    return convert(picture, pixel_format(_YUV_PACKED_444), csc.matrix(csc.DEFAULT)).planes[0]


def channels(plane: Array, spec: PlaneSpec) -> Iterator[tuple[int, Array]]:
    """(place in a colour, values) of the channels of a plane that carry colour."""
    for index, name in enumerate(spec.channels):
        if name not in "ax":
            yield CHANNEL_INDEX[name], plane if plane.ndim == 2 else plane[:, :, index]


def clip(region: Region, out: Pixels) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what lies in the picture."""
    return max(region.left, 0), max(region.top, 0), min(region.right, out.width), min(region.bottom, out.height)


def _block_sums(values: Array, left: int, top: int, spec: PlaneSpec) -> Array:
    """Sums over the pixels of each value of a plane, for pixels that start at (left, top)."""
    if spec.x == spec.y == 1:
        return values
    before, above = left % spec.x, top % spec.y
    rows, columns = values.shape
    wide = np.pad(values, ((above, -(above + rows) % spec.y), (before, -(before + columns) % spec.x)))
    phases = [wide[y :: spec.y, x :: spec.x] for y in range(spec.y) for x in range(spec.x)]
    total = phases[0].copy()
    for phase in phases[1:]:
        total += phase
    return total


def _whole(pixels: int, step: int, first: int, count: int) -> Array:
    """How many of the pixels of each value are in the picture, along one side: fewer at an odd end."""
    return np.minimum(step, pixels - step * np.arange(first, first + count)).astype(np.uint32)


def blend(out: Pixels, number: int, left: int, top: int, alpha: Array, colours: Array) -> None:
    """Blend colours (rows, columns, 3), or one for all, into one plane by an alpha of bytes; all of it lies in the picture."""
    spec = out.format.planes[number]
    x, y = left // spec.x, top // spec.y
    weight = alpha.astype(np.uint32)
    sums = _block_sums(weight, left, top, spec)
    height, width = sums.shape
    whole = 255 * np.outer(_whole(out.height, spec.y, y, height), _whole(out.width, spec.x, x, width))
    if whole[-1, -1] == whole[0, 0]:
        whole = whole[0, 0]  # NumPy divides by one number several times faster
    for index, values in channels(out.planes[number][y : y + height, x : x + width], spec):
        if colours.size == 3:
            added = sums * np.uint32(colours[0, 0, index])
        else:
            added = _block_sums(weight * colours[:, :, index], left, top, spec)
        values[...] = (values * (whole - sums) + added + whole // 2) // whole
