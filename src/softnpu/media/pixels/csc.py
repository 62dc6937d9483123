"""Colour matrices between YUV and RGB.

A matrix is applied as `floor(row · values + bias + 0.5)`, then cut off at 0 and 255. The manual gives BT.601 of full range
the biases -0.5, 127.5, 127.5 towards YUV. So there Y is `floor(row · rgb)` and U, V are `floor(row · rgb + 128)`: white is
255 and every grey has the chroma 128. The other matrices have the usual biases, so they round to the nearest value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes

Matrix = np.ndarray[Any, np.dtype[np.float32]]
DEFAULT = 0
_KR_KB = {"601": (0.299, 0.114), "709": (0.2126, 0.0722), "2020": (0.2627, 0.0593)}
_NUMBERS = (("601", True), ("601", False), ("709", True), ("709", False), ("2020", True), ("2020", False))
# As printed in the manual: three decimals, which a calculation from Kr and Kb would not give.
_WIDE_601_TO_RGB = ((1, 0, 1.402), (1, -0.344, -0.714), (1, 1.772, 0))
_WIDE_601_TO_YUV = ((0.299, 0.587, 0.114), (-0.168, -0.331, 0.5), (0.5, -0.419, -0.081))
_WIDE_601_BIASES = (-0.5, 127.5, 127.5)
# Values halfway between two levels go up, whether OpenCV calculates with integers of 10 bits or with floats.
_TIE = 2.0**-9
_LARGEST = 2.0**20  # such a coefficient gives 0 or 255 already, and no sum of them leaves 32 bits


@dataclass(frozen=True, eq=False)
class Csc:
    """A pair of matrices (3, 4): columns y, u, v, bias to rows r, g, b; and columns r, g, b, bias to rows y, u, v."""

    to_rgb: Matrix
    to_yuv: Matrix

    def rgb_from(self, source: str, target: str) -> Matrix:
        """The matrix for OpenCV from channels in the order `source` (yuv, yvu) to the order `target` (rgb, bgr)."""
        return _ordered(self.to_rgb, "yuv", source, "rgb", target)

    def yuv_from(self, source: str, target: str) -> Matrix:
        """The matrix for OpenCV from channels in the order `source` (rgb, bgr) to the order `target` (yuv, yvu)."""
        return _ordered(self.to_yuv, "rgb", source, "yuv", target)


def _ordered(matrix: Matrix, columns: str, source: str, rows: str, target: str) -> Matrix:
    picked = matrix[[rows.index(letter) for letter in target]][:, [*(columns.index(letter) for letter in source), 3]]
    picked[:, 3] += _TIE
    return picked


def _scales(wide: bool) -> tuple[float, float, float]:
    """Where Y starts, and how many levels Y and the chroma have for 255 of RGB."""
    return (0.0, 1.0, 1.0) if wide else (16.0, 219 / 255, 224 / 255)


def _to_rgb(standard: str, wide: bool) -> Matrix:
    kr, kb = _KR_KB[standard]
    kg = 1 - kr - kb
    rows = np.array(
        [
            [1, 0, 2 * (1 - kr)],
            [1, -2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg],
            [1, 2 * (1 - kb), 0],
        ]
    )
    first, luma, chroma = _scales(wide)
    rows /= (luma, chroma, chroma)
    return _with_bias(rows, -rows @ (first, 128, 128))


def _to_yuv(standard: str, wide: bool) -> Matrix:
    kr, kb = _KR_KB[standard]
    luma_row = np.array([kr, 1 - kr - kb, kb])
    first, luma, chroma = _scales(wide)
    u_row = (np.array([0, 0, 1]) - luma_row) / (2 * (1 - kb))
    v_row = (np.array([1, 0, 0]) - luma_row) / (2 * (1 - kr))
    return _with_bias(np.array([luma_row * luma, u_row * chroma, v_row * chroma]), (first, 128, 128))


def _with_bias(rows: Any, biases: Any) -> Matrix:
    return np.column_stack([np.asarray(rows, np.float64), np.asarray(biases, np.float64)]).astype(np.float32)


@functools.cache
def matrix(number: int) -> Csc:
    """The matrix of this number of `acldvppCscMatrix` / `hi_csc_matrix`, 0 to 5."""
    if not 0 <= number < len(_NUMBERS):
        raise NpuError(
            codes.INVALID_PARAM,
            f"there is no colour matrix {number}",
            "use 0 to 5: BT.601, BT.709 and BT.2020, each of full (even) and of limited range (odd)",
        )
    if number == DEFAULT:
        rows = np.array(_WIDE_601_TO_RGB)
        return Csc(_with_bias(rows, -rows @ (0, 128, 128)), _with_bias(_WIDE_601_TO_YUV, _WIDE_601_BIASES))
    return Csc(_to_rgb(*_NUMBERS[number]), _to_yuv(*_NUMBERS[number]))


def user(yuv_to_rgb: Sequence[float], rgb_to_yuv: Sequence[float]) -> Csc:
    """A program's own matrices: each nine coefficients row by row, then three biases that are added to the result."""
    return Csc(_user(yuv_to_rgb, "yuv_to_rgb"), _user(rgb_to_yuv, "rgb_to_yuv"))


def _user(values: Sequence[float], name: str) -> Matrix:
    if len(values) != 12 or not all(math.isfinite(value) for value in values):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the colour matrix {name} has the values {list(values)}",
            "give 9 coefficients and 3 biases, all of them finite",
        )
    bounded = np.array(values, np.float64).clip(-_LARGEST, _LARGEST)
    return _with_bias(bounded[:9].reshape(3, 3), bounded[9:])
