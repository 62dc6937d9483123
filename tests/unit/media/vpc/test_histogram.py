"""Histograms and tables against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels.formats import PixelFormat, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.vpc import histogram as module
from softnpu.media.vpc.histogram import equalize, histogram

Array = np.ndarray[Any, Any]
ROWS = {"y": 0, "r": 0, "u": 1, "g": 1, "v": 2, "b": 2}
PLAIN = [0, 1, 2, 3, 4, 5, 11, 12, 13, 14, 17, 20, 55, 58, 59, 63, 69, 70, 1000]


def picture(value: int, width: int = 23, height: int = 17, seed: int = 1) -> Pixels:
    pixels = Pixels.empty(pixel_format(value), width, height)
    random = np.random.default_rng(seed)
    for index, plane in enumerate(pixels.planes):
        wide = random.integers(0, 256, (plane.shape[0], plane.shape[1] + 7, *plane.shape[2:]), np.uint8)
        pixels.planes[index] = wide[:, : plane.shape[1]]
    return pixels


def channel_values(form: PixelFormat, planes: list[Array]) -> dict[str, Array]:
    by_name = {}
    for spec, plane in zip(form.planes, planes, strict=True):
        for index, name in enumerate(spec.channels):
            by_name[name] = plane if plane.ndim == 2 else plane[:, :, index]
    return by_name


@pytest.mark.parametrize("value", PLAIN)
def test_histogram_counts_each_channel(value: int) -> None:
    src = picture(value)
    expected = np.zeros((3, 256), np.uint32)
    for name, values in channel_values(src.format, src.planes).items():
        if name in ROWS:
            expected[ROWS[name]] = np.bincount(values.ravel(), minlength=256)
    counts = histogram(src)
    assert counts.dtype == np.uint32
    np.testing.assert_array_equal(counts, expected)


def test_rows_are_red_green_blue_whatever_lies_first() -> None:
    colour = np.empty((4, 5, 3), np.uint8)
    colour[:] = (10, 20, 30)
    bgr = histogram(Pixels(pixel_format(13), [colour], 5, 4))
    assert [int(row.argmax()) for row in bgr] == [30, 20, 10]
    grey = histogram(Pixels(pixel_format(0), [colour[:, :, 0].copy()], 5, 4))
    assert grey[0, 10] == 20
    assert not grey[1:].any()


@pytest.mark.parametrize("value", [7, 8, 9, 10])
@pytest.mark.parametrize("width", [1, 2, 22, 23])
def test_packed_422_does_not_count_what_only_fills_a_pair(value: int, width: int) -> None:
    src = picture(value, width)
    letters = src.format.channels
    first = letters.index("y")
    luma = src.planes[0][:, :, first::2].reshape(17, -1)[:, :width]
    counts = histogram(src)
    np.testing.assert_array_equal(counts[0], np.bincount(luma.ravel(), minlength=256))
    for row, name in ((1, "u"), (2, "v")):
        values = src.planes[0][:, :, letters.index(name)]
        np.testing.assert_array_equal(counts[row], np.bincount(values.ravel(), minlength=256))


def test_large_pictures_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EXACT", 50)
    src = picture(12)
    np.testing.assert_array_equal(histogram(src)[1], np.bincount(src.planes[0][:, :, 1].ravel(), minlength=256))


def test_counts_beyond_what_a_float_holds() -> None:
    side = 4099
    grey = np.zeros((side, side), np.uint8)
    assert histogram(Pixels(pixel_format(0), [grey], side, side))[0, 0] == side * side  # odd, and above 2**24


@pytest.mark.parametrize("value", PLAIN)
@pytest.mark.parametrize("in_place", [False, True])
def test_equalize_maps_each_channel_through_its_table(value: int, in_place: bool) -> None:
    lut = np.random.default_rng(5).integers(0, 256, (3, 256), np.uint8)
    src = picture(value)
    before = channel_values(src.format, [plane.copy() for plane in src.planes])
    out = src if in_place else picture(value, seed=2)
    equalize(src, out, lut)
    for name, values in channel_values(out.format, out.planes).items():
        wanted = lut[ROWS[name]][before[name]] if name in ROWS else before[name]
        np.testing.assert_array_equal(values, wanted)


@pytest.mark.parametrize("value", [7, 8, 10])
def test_equalize_packed_422(value: int) -> None:
    lut = np.random.default_rng(5).integers(0, 256, (3, 256), np.uint8)
    src, out = picture(value), picture(value, seed=2)
    equalize(src, out, lut)
    for index, name in enumerate(src.format.channels):
        np.testing.assert_array_equal(out.planes[0][:, :, index], lut[ROWS[name]][src.planes[0][:, :, index]])


def test_one_pixel() -> None:
    src, out = picture(1, 1, 1), picture(1, 1, 1, seed=2)
    assert histogram(src).sum(axis=1).tolist() == [1, 1, 1]
    equalize(src, out, np.arange(255, -1, -1, dtype=np.uint8)[None].repeat(3, axis=0))
    assert int(out.planes[0][0, 0]) == 255 - int(src.planes[0][0, 0])


def test_refusals() -> None:
    src = picture(1)
    lut = np.zeros((3, 256), np.uint8)
    calls = {
        codes.API_NOT_SUPPORT: [
            lambda: histogram(Pixels.empty(pixel_format(138), 4, 4)),
            lambda: equalize(*[Pixels.empty(pixel_format(110), 4, 4)] * 2, lut),
        ],
        codes.INVALID_PARAM: [
            lambda: histogram(Pixels(src.format, src.planes[:1], 23, 17)),
            lambda: equalize(src, picture(2), lut),
            lambda: equalize(src, picture(1, 20), lut),
            lambda: equalize(src, src, lut[:2]),
            lambda: equalize(src, src, lut.astype(np.uint16)),
        ],
    }
    for code, refused in calls.items():
        for call in refused:
            with pytest.raises(NpuError) as caught:
                call()
            assert caught.value.code == code
