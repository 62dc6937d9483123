"""Drawing on pictures: mosaic, covers and lines. `osd` lays pictures over, on the same canvas.

What leaves the picture is cut off. Sub-sampled chroma takes a colour by the share of its pixels that are painted. An
alpha channel of the picture keeps its values. Colours are 0xRRGGBB; YUV pictures get them through the default matrix.
Items check themselves when they are made, so a wrong one leaves the picture as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softnpu.media.doors import cv2
from softnpu.media.pixels.formats import PixelFormat, PlaneSpec
from softnpu.media.pixels.picture import MAX_SIDE, Pixels, Region
from softnpu.media.pixels.planes import Array
from softnpu.media.vpc._canvas import blend, canvas, channels, clip, in_format
from softnpu.media.vpc._opencv import guarded
from softnpu.media.vpc.checks import wrong

Point = tuple[int, int]
MOSAIC_BLOCKS = (8, 16, 32)
_LEAST_MOSAIC = 8
_FAR = 2 * MAX_SIDE
_SHIFT = 8  # bits after the point of OpenCV's coordinates


def _check_points(points: Sequence[Point]) -> None:
    for x, y in points:
        if max(abs(x), abs(y)) > _FAR:
            raise wrong(f"the point ({x}, {y}) is too far outside", f"use coordinates from {-_FAR} to {_FAR}")


@dataclass(frozen=True)
class Mosaic:
    """A region in which blocks of `block` x `block` pixels, counted from its corner, become one colour."""

    region: Region
    block: int

    def __post_init__(self) -> None:
        if self.block not in MOSAIC_BLOCKS:
            raise wrong(f"the mosaic block is {self.block}", "use 8, 16 or 32 pixels")
        if min(self.region.width, self.region.height) < _LEAST_MOSAIC:
            raise wrong(f"the mosaic region is {self.region.width}x{self.region.height}", "use at least 8x8")


@dataclass(frozen=True)
class RectCover:
    """A filled rectangle."""

    region: Region
    colour: int

    def __post_init__(self) -> None:
        if self.region.width < 1 or self.region.height < 1:
            raise wrong(f"a cover is {self.region.width}x{self.region.height}", "use sides of at least 1")


@dataclass(frozen=True)
class QuadCover:
    """A quadrilateral, its corners included: filled, or its outline with a thickness."""

    points: Sequence[Point]
    colour: int
    is_solid: bool = True
    thickness: int = 0

    def __post_init__(self) -> None:
        if len(self.points) != 4:
            raise wrong(f"a quadrilateral has {len(self.points)} points", "give 4")
        _check_points(self.points)
        if not self.is_solid:
            self.outline()

    def outline(self) -> list[Line]:
        """Its sides."""
        ends = zip(self.points, (*self.points[1:], self.points[0]), strict=True)
        return [Line(start, end, self.thickness, self.colour) for start, end in ends]


@dataclass(frozen=True)
class Line:
    """A line with both its end points. In the directions of the axes it is `thickness` wide: for 2 the row of the points and the next."""

    start: Point
    end: Point
    thickness: int
    colour: int

    def __post_init__(self) -> None:
        _check_points((self.start, self.end))
        if self.start == self.end:
            raise wrong(f"a line starts and ends at {self.start}", "give two different points")
        if self.thickness < 2 or self.thickness % 2 or self.thickness > MAX_SIDE:
            raise wrong(f"the thickness of a line is {self.thickness}", "use an even number from 2")


def _colour(value: int, form: PixelFormat) -> Array:
    """One colour 0xRRGGBB; bits above are not looked at."""
    return in_format(np.array([[[value >> 16 & 255, value >> 8 & 255, value & 255]]], np.uint8), form)


def _paint(out: Pixels, left: int, top: int, mask: Array, colour: Array) -> None:
    """Paint one colour where the mask is 255: full planes are written at once, sub-sampled ones are blended."""
    chosen = mask != 0
    for number, spec in enumerate(out.format.planes):
        if spec.x > 1 or spec.y > 1:
            blend(out, number, left, top, mask, colour)
            continue
        part = out.planes[number][top : top + mask.shape[0], left : left + mask.shape[1]]
        for index, values in channels(part, spec):
            values[chosen] = colour[0, 0, index]


def _fill(out: Pixels, region: Region, colour: Array) -> None:
    """Fill a rectangle: whole chroma values at once, and by mask when it divides some."""
    left, top, right, bottom = clip(region, out)
    if left >= right or top >= bottom:
        return
    x, y = out.format.chroma
    if left % x or top % y or (right % x and right < out.width) or (bottom % y and bottom < out.height):
        _paint(out, left, top, np.full((bottom - top, right - left), 255, np.uint8), colour)
        return
    for plane, spec in zip(out.planes, out.format.planes, strict=True):
        part = plane[top // spec.y : -(-bottom // spec.y), left // spec.x : -(-right // spec.x)]
        for index, values in channels(part, spec):
            values[...] = colour[0, 0, index]


def _polygon(out: Pixels, corners: Array, colour: Array) -> None:
    """Fill a polygon of float corners (n, 2), its border included."""
    low, high = np.floor(corners.min(axis=0)).astype(int) - 1, np.ceil(corners.max(axis=0)).astype(int) + 2
    left, top = max(int(low[0]), 0), max(int(low[1]), 0)
    right, bottom = min(int(high[0]), out.width), min(int(high[1]), out.height)
    if left >= right or top >= bottom:
        return
    mask = np.zeros((bottom - top, right - left), np.uint8)
    fixed = np.rint((corners - (left, top)) * (1 << _SHIFT)).astype(np.int32)
    with guarded():
        cv2().fillPoly(mask, [fixed], 255, lineType=cv2().LINE_8, shift=_SHIFT)
    _paint(out, left, top, mask, colour)


def _stroke(out: Pixels, item: Line) -> None:
    """A straight line with flat ends. Even coordinates and thickness cover whole chroma values of 4:2:0 along the axes."""
    first, last = np.array(item.start, np.float64), np.array(item.end, np.float64)
    along = (last - first) / np.hypot(*(last - first))
    across = np.array([-along[1], along[0]])
    if across[1] < 0 or (across[1] == 0 and across[0] < 0):
        across = -across
    low = -(item.thickness // 4 * 2)
    high = low + item.thickness - 1
    corners = [first + low * across, last + low * across, last + high * across, first + high * across]
    _polygon(out, np.array(corners), _colour(item.colour, out.format))


def line(out: Pixels, items: Sequence[Line]) -> None:
    """Draw 1 to 100 lines, in their order."""
    with canvas(out, len(items), "draw_line") as whole:
        for item in items:
            _stroke(whole, item)


def cover(out: Pixels, items: Sequence[RectCover | QuadCover]) -> None:
    """Draw 1 to 100 covers, in their order. The chip fills quadrilaterals only; an outline is drawn here too."""
    with canvas(out, len(items), "draw_cover") as whole:
        for item in items:
            colour = _colour(item.colour, whole.format)
            if isinstance(item, RectCover):
                _fill(whole, item.region, colour)
            elif item.is_solid:
                _polygon(whole, np.array(item.points, np.float64), colour)
            else:
                for side in item.outline():
                    _stroke(whole, side)


def _edges(first: int, last: int, step: int, size: int) -> tuple[Array, int]:
    """Where blocks begin between `first` and `last`, and the end; cut off at 0 and `size`."""
    low, high = max(first, 0), min(last, size)
    if low >= high:
        return np.empty(0, np.intp), high
    skipped = (low - first) // step * step
    return np.maximum(np.arange(first + skipped, high, step), low), high


def _mosaic_plane(plane: Array, spec: PlaneSpec, item: Mosaic) -> None:
    """Every block becomes its mean; blocks that are cut off count what is left of them."""
    area = item.region
    lefts, right = _edges(area.left // spec.x, -(-area.right // spec.x), item.block // spec.x, plane.shape[1])
    tops, bottom = _edges(area.top // spec.y, -(-area.bottom // spec.y), item.block // spec.y, plane.shape[0])
    if not (lefts.size and tops.size):
        return
    part = plane[tops[0] : bottom, lefts[0] : right]
    heights, widths = np.diff(tops, append=bottom), np.diff(lefts, append=right)
    sums = np.add.reduceat(part, tops - tops[0], axis=0, dtype=np.uint32)
    sums = np.add.reduceat(sums, lefts - lefts[0], axis=1, dtype=np.uint32)
    counts = np.outer(heights, widths).reshape(tops.size, lefts.size, *[1] * (plane.ndim - 2))
    means = ((sums + counts // 2) // counts).astype(np.uint8)
    part[...] = means.repeat(heights, axis=0).repeat(widths, axis=1)


def mosaic(out: Pixels, regions: Sequence[Mosaic]) -> None:
    """Make 1 to 100 regions unrecognisable: each block becomes its mean. Regions may leave the picture."""
    with canvas(out, len(regions), "draw_mosaic") as whole:
        for item in regions:
            for plane, spec in zip(whole.planes, whole.format.planes, strict=True):
                _mosaic_plane(plane, spec, item)
