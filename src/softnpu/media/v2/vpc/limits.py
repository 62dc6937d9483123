"""What single functions of picture processing take on a board: refused in strict mode, else noted once.

These hold on every chip that has the function. What differs between chips is in `rules` and its rows.
"""

from __future__ import annotations

from softnpu.media import rules
from softnpu.media.pixels.formats import is_known, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.v2.struct import Fields
from softnpu.media.vpc.checks import CONSTANT, REPLICATE

_WARPED = (0, 1, 2, 11, 12, 13, 138, 1006, 1007, 1012, 1013)  # bytes, and the same in FP32
_WARP_SIDES = (4096, 8192)
_LIMITS = {
    "vpc_equalize_hist": ((0, 1, 2, 3, 4, 11, 12, 13), (4096, 4096)),
    "vpc_warp_affine": (_WARPED, _WARP_SIDES),
    "vpc_lut_remap": (_WARPED, _WARP_SIDES),
}
_LEAST = (10, 6)
_CENTRE = (-1, -1)
_AROUND = 2  # pixels around a level of a pyramid


def check_pictures(function: str, *pictures: Pixels) -> None:
    """Formats and sizes of a function that takes fewer than the engine."""
    formats, most = _LIMITS[function]
    for picture in pictures:
        form = picture.format
        rules.insist(form.value in formats, f"{function} of {form.name} ({form.value}), not one of {formats}")
        _check_sides(picture.width, picture.height, most, f"a picture of {function}")


def _check_sides(width: int, height: int, most: tuple[int, int], subject: str) -> None:
    fits = _LEAST[0] <= width <= most[0] and _LEAST[1] <= height <= most[1]
    rules.insist(fits, f"{subject} is {width}x{height}, outside {_LEAST[0]}x{_LEAST[1]} to {most[0]}x{most[1]}")


def check_lut(width: int, height: int) -> None:
    """The output for which a table is made."""
    _check_sides(width, height, _WARP_SIDES, "the output of a table")


def check_kind(border: int, function: str, kinds: tuple[int, ...] = (CONSTANT, REPLICATE)) -> None:
    """The border of a function that knows few of them."""
    rules.insist(border in kinds, f"border type {border} of {function} is not among {kinds}")


def check_anchor(anchor: Fields) -> None:
    """The place of the result below a kernel."""
    rules.insist((anchor.x, anchor.y) == _CENTRE, f"the anchor is ({anchor.x}, {anchor.y}), not (-1, -1)")


def check_pyramid(border: Fields, divisor: int) -> None:
    """The border around a level, and what the sums are divided by."""
    sides = (border.top, border.bottom, border.left, border.right)
    rules.insist(set(sides) == {_AROUND}, f"the border of a pyramid is {sides} pixels, not {_AROUND} on each side")
    rules.insist(divisor != 0, "the divisor of a pyramid is 0, not a power of two")


def check_points(form: int, points: list[tuple[int, int]]) -> None:
    """End points of lines: on a picture whose chroma is halved they are even."""
    if not is_known(form) or pixel_format(form).chroma[0] == 1:
        return
    for x, y in points:
        rules.insist(not (x % 2 or y % 2), f"a line goes through ({x}, {y}), {pixel_format(form).name} wants even ones")


def check_cover(is_solid: int) -> None:
    """A quadrilateral."""
    rules.insist(bool(is_solid), "a quadrilateral of vpc_draw_cover is not solid (is_solid 0)")
