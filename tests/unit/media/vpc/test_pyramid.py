"""The pyramid against numpy sums and against cv2.pyrDown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.vpc.pyramid import limits, pyrdown

Array = np.ndarray[Any, Any]
GREY = pixel_format(0)
MODES: dict[int, dict[str, Any]] = {
    0: {"mode": "constant", "constant_values": 77},
    1: {"mode": "edge"},
    2: {"mode": "symmetric"},
}


def picture(width: int, height: int, seed: int = 1) -> Pixels:
    wide = np.random.default_rng(seed).integers(0, 256, (height, width + 6), np.uint8)
    return Pixels(GREY, [wide[:, :width]], width, height)


def levels_of(src: Pixels, count: int) -> list[Pixels]:
    sizes = [(src.width, src.height)]
    for _ in range(count):
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    return [picture(*size, seed=9) for size in sizes[1:]]


def level_after(plane: Array, kernel: Array, divisor: int, border: int) -> Array:
    wide = np.pad(plane, 2, **MODES[border]).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (5, 5))[::2, ::2]
    sums = (windows * kernel).sum(axis=(2, 3)) / divisor
    return np.rint(sums).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("border", MODES)
@pytest.mark.parametrize("size", [(80, 48), (83, 51)])
def test_levels_with_the_binomial_kernel(border: int, size: tuple[int, int]) -> None:
    src = picture(*size)
    outs = levels_of(src, 3)
    pyrdown(src, outs, None, 256, border, (77.0,))
    row = [1, 4, 6, 4, 1]
    plane = src.planes[0]
    for out in outs:
        plane = level_after(plane, np.outer(row, row), 256, border)
        np.testing.assert_array_equal(out.planes[0], plane)


def test_inside_it_is_opencvs_pyramid() -> None:
    src = picture(200, 120)
    outs = levels_of(src, 1)
    pyrdown(src, outs)
    theirs = cv2.pyrDown(np.ascontiguousarray(src.planes[0])).astype(int)
    inner = np.abs(outs[0].planes[0].astype(int) - theirs)[2:-2, 2:-2]
    assert inner.max() <= 1  # pyrDown rounds halves up
    assert (inner == 0).mean() > 0.99


def test_own_kernel_and_divisor() -> None:
    kernel = np.random.default_rng(4).integers(-20, 30, (5, 5))
    src = picture(41, 25)
    outs = levels_of(src, 2)
    pyrdown(src, outs, kernel, 64, 1)
    first = level_after(src.planes[0], kernel, 64, 1)
    np.testing.assert_array_equal(outs[0].planes[0], first)
    np.testing.assert_array_equal(outs[1].planes[0], level_after(first, kernel, 64, 1))


def test_an_output_may_lie_over_the_input() -> None:
    src = picture(64, 40)
    expected = levels_of(src, 1)
    pyrdown(src, expected)
    out = Pixels(GREY, [src.planes[0][:20, :32]], 32, 20)
    pyrdown(src, [out])
    np.testing.assert_array_equal(out.planes[0], expected[0].planes[0])


@pytest.mark.parametrize(
    ("size", "levels", "divisor"),
    [
        ((20, 12), 2, 256), ((19, 12), 1, 256), ((20, 11), 1, 256), ((2049, 100), 1, 256), ((100, 100), 0, 256),
        ((1024, 1024), 5, 256), ((100, 100), 1, 0), ((100, 100), 1, 3), ((100, 100), 1, -4), ((1, 1), 1, 256),
    ],
)  # fmt: skip
def test_limits(size: tuple[int, int], levels: int, divisor: int) -> None:
    with pytest.raises(NpuError) as caught:
        limits(*size, levels, divisor)
    assert caught.value.code == codes.INVALID_PARAM


def test_limits_allow_the_ends() -> None:
    for levels, size in enumerate([(20, 12), (40, 24), (80, 48), (160, 96)], 1):
        limits(*size, levels, 1)
    limits(2048, 2048, 4, 1 << 20)


def refused(src: Pixels, outs: Sequence[Pixels], *rest: Any) -> int:
    with pytest.raises(NpuError) as caught:
        pyrdown(src, outs, *rest)
    return caught.value.code


def test_refusals() -> None:
    src = picture(40, 24)
    outs = levels_of(src, 1)
    assert refused(src, []) == codes.INVALID_PARAM
    assert refused(src, [picture(20, 13)]) == codes.INVALID_PARAM
    assert refused(src, outs, np.ones((3, 3)), 8) == codes.INVALID_PARAM
    assert refused(src, outs, np.ones((5, 5)), 25) == codes.INVALID_PARAM
    assert refused(src, outs, None, 256, 3) == codes.INVALID_PARAM
    assert refused(src, outs, None, 256, 0, (float("nan"),)) == codes.INVALID_PARAM
    assert refused(Pixels(GREY, [], 40, 24), outs) == codes.INVALID_PARAM
    nv12 = Pixels.empty(pixel_format(1), 40, 24)
    assert refused(nv12, [Pixels.empty(pixel_format(1), 20, 12)]) == codes.API_NOT_SUPPORT
