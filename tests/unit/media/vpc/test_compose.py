"""Whole pictures: convert then scale, paste, borders, filling."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels import csc
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.formats import BGR_888, NV12, NV21, RGB_888, YUV_400, PixelFormat, pixel_format
from softnpu.media.pixels.picture import Pixels, Region
from softnpu.media.vpc import compose
from tests.unit.media.media_pictures import ALL, channels, in_larger_memory, outside_is_untouched, own_size, picture

Array = np.ndarray[Any, Any]
CV2_BORDERS = {
    0: cv2.BORDER_CONSTANT,
    1: cv2.BORDER_REPLICATE,
    2: cv2.BORDER_REFLECT,
    3: cv2.BORDER_REFLECT_101,
    4: cv2.BORDER_WRAP,
}
YUYV, UYVY, RGBA, PLANAR_RGB, TEN_BIT, RGB_FP32, PLANAR_FP16 = 7, 8, 16, 69, 18, 1012, 1004


def new(value: int, width: int, height: int) -> Pixels:
    return Pixels.empty(pixel_format(value), width, height)


def same(first: Pixels, second: Pixels) -> bool:
    return all((mine == other).all() for mine, other in zip(first.planes, second.planes, strict=True))


def test_a_copy_when_nothing_differs() -> None:
    for form in ALL:
        src, out = picture(form, 18, 6), Pixels.empty(form, 18, 6)
        compose.transfer(src, out)
        assert same(src, out)


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("target", [RGB_888, BGR_888, RGBA, YUYV, PLANAR_RGB, RGB_FP32])
def test_converts_before_it_scales(target: int, interpolation: str) -> None:
    """Chroma repeated, then scaled as RGB: not scaled as chroma, then repeated."""
    src = picture(pixel_format(NV12), 40, 30)
    for size in ((20, 16), (64, 48)):
        out = new(target, *size)
        compose.transfer(src, out, interpolation)
        full = convert(src, out.format, csc.matrix(0))
        kind = cv2.INTER_LINEAR if interpolation == "bilinear" else cv2.INTER_NEAREST
        for letter, values in channels(full).items():
            if target == YUYV:
                values = values[:, ::2] if letter in "uv" else values
                values = values.astype(np.uint8)
            plane = own_size(out)[letter]
            kept = values if target == RGB_FP32 else values.astype(np.uint8)
            assert (cv2.resize(kept, plane.shape[::-1], interpolation=kind) == plane).all()


def test_matrix_is_used() -> None:
    src = picture(pixel_format(NV12), 16, 16)
    wide, narrow = new(RGB_888, 8, 8), new(RGB_888, 8, 8)
    compose.transfer(src, wide)
    compose.transfer(src, narrow, csc=csc.matrix(1))
    assert not same(wide, narrow)
    default = new(RGB_888, 8, 8)
    compose.transfer(src, default, csc=csc.matrix(0))
    assert same(wide, default)


def test_halves_are_scaled_without_loss() -> None:
    src = picture(pixel_format(NV12), 40, 30)
    single, half = new(1006, 23, 17), new(PLANAR_FP16, 23, 17)
    compose.transfer(src, single)
    compose.transfer(src, half)
    for first, second in zip(single.planes, half.planes, strict=True):
        assert (first.astype(np.float16) == second).all()


def test_int8_is_cut_off_before_it_is_scaled() -> None:
    src = Pixels(pixel_format(RGB_888), [np.array([[[0] * 3, [254] * 3]], np.uint8)], 2, 1)
    out = new(110, 1, 1)
    compose.transfer(src, out)
    assert out.planes[0].ravel().tolist() == [64] * 3  # between 0 and 127, not 127 for what was between 0 and 254


@pytest.mark.parametrize("target", ALL, ids=lambda form: form.name)
def test_a_paste_leaves_the_rest(target: PixelFormat) -> None:
    for value in (NV12, RGB_888, target.value):
        for size in ((8, 6), (12, 10)):
            src = picture(pixel_format(value), 12, 10)
            canvas = picture(target, 40, 40)
            before = own_size(canvas)
            pasted = canvas.crop(4, 6, *size)
            compose.transfer(src, pasted)
            alone = Pixels.empty(target, *size)
            compose.transfer(src, alone)
            across, down = target.chroma
            for letter, plane in own_size(canvas).items():
                x, y = (across, down) if letter in "uv" else (1, 1)
                rows, columns = slice(6 // y, -(-(6 + size[1]) // y)), slice(4 // x, -(-(4 + size[0]) // x))
                assert (plane[rows, columns] == own_size(alone)[letter]).all()
                plane[rows, columns] = before[letter][rows, columns]
                assert (plane == before[letter]).all()


@pytest.mark.parametrize("value", [NV12, RGB_888, YUYV, 55])
@pytest.mark.parametrize("region", [(0, 0, 20, 16), (8, 8, 20, 16), (12, 4, 10, 8)])
def test_source_and_target_in_one_picture(value: int, region: tuple[int, int, int, int]) -> None:
    whole = picture(pixel_format(value), 40, 32)
    part = whole.crop(4, 4, 20, 16)
    copy = Pixels(part.format, [plane.copy() for plane in part.planes], 20, 16)
    wanted = Pixels.empty(part.format, *region[2:])
    compose.transfer(copy, wanted)
    target = whole.crop(*region)
    compose.transfer(part, target)
    assert same(target, wanted)


def test_conversion_over_the_source() -> None:
    memory = np.random.default_rng(1).integers(0, 256, 40 * 32 * 3, np.uint8)
    source = Pixels(pixel_format(NV12), [memory[:1280].reshape(32, 40), memory[1280:1920].reshape(16, 20, 2)], 40, 32)
    wanted = convert(source, pixel_format(RGB_888), csc.matrix(0))
    compose.transfer(source, Pixels(wanted.format, [memory.reshape(32, 40, 3)], 40, 32))
    assert (memory.reshape(32, 40, 3) == wanted.planes[0]).all()


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (17, 13)])
def test_small_and_odd(size: tuple[int, int]) -> None:
    for form in ALL:
        src = picture(form, *size)
        for target in (NV12, RGB_888, YUYV, RGBA):
            out, memory = in_larger_memory(pixel_format(target), 5, 3)
            compose.transfer(src, out)
            assert outside_is_untouched(out, memory)


@pytest.mark.parametrize("kind", CV2_BORDERS)
@pytest.mark.parametrize("value", [YUV_400, RGB_888, BGR_888, RGBA, PLANAR_RGB, 5])
@pytest.mark.parametrize(
    "inner", [Region(3, 2, 20, 15), Region(0, 0, 30, 5), Region(10, 9, 1, 1), Region(13, 12, 2, 3)]
)
def test_borders_are_those_of_opencv(kind: int, value: int, inner: Region) -> None:
    out = picture(pixel_format(value), 30, 24)
    parts = [plane[inner.top : inner.bottom, inner.left : inner.right].copy() for plane in out.planes]
    compose.make_border(out, inner, kind, (10, 20, 30, 40))
    letters = {"r": 10, "g": 20, "b": 30, "a": 40, "y": 10, "u": 20, "v": 30}
    sides = (inner.top, 24 - inner.bottom, inner.left, 30 - inner.right)
    for spec, plane, part in zip(out.format.planes, out.planes, parts, strict=True):
        colour = [letters[letter] for letter in spec.channels]
        theirs = cv2.copyMakeBorder(np.ascontiguousarray(part), *sides, CV2_BORDERS[kind], value=colour)
        assert (plane == theirs).all()


@pytest.mark.parametrize("kind", CV2_BORDERS)
@pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
def test_borders_of_every_format(form: PixelFormat, kind: int) -> None:
    out, memory = in_larger_memory(form, 24, 20)
    fresh = picture(form, 24, 20)
    for mine, other in zip(out.planes, fresh.planes, strict=True):
        mine[...] = other
    before = own_size(out)
    compose.make_border(out, Region(4, 8, 12, 8), kind, (50, 60, 70))
    across, down = form.chroma
    colours = {"r": 50, "g": 60, "b": 70, "a": 255, "y": 50, "u": 60, "v": 70, "x": 255}
    for letter, plane in own_size(out).items():
        x, y = (across, down) if letter in "uv" else (1, 1)
        part = before[letter][8 // y : 16 // y, 4 // x : 16 // x]
        colour = min(colours[letter], 127) if form.type == "int8" else colours[letter]
        theirs = cv2.copyMakeBorder(
            np.ascontiguousarray(part), 8 // y, 4 // y, 4 // x, 8 // x, CV2_BORDERS[kind],
            value=colour * 256 if form.bits == 10 else colour,
        )  # fmt: skip
        assert (plane == theirs).all(), f"{form} {letter}"
    assert outside_is_untouched(out, memory)


def test_an_odd_inner_picture_owns_the_chroma_it_touches() -> None:
    out = picture(pixel_format(NV12), 8, 8)
    chroma = out.planes[1].copy()
    compose.make_border(out, Region(1, 1, 2, 2), 0, (0, 128, 128))
    assert (out.planes[1][:2, :2] == chroma[:2, :2]).all()
    assert (out.planes[1][2:] == 128).all()
    assert (out.planes[1][:, 2:] == 128).all()
    assert out.planes[0][0].tolist() == [0] * 8


def test_border_colour_as_rgb_for_a_yuv_picture() -> None:
    out = picture(pixel_format(NV21), 8, 8)
    compose.make_border(out, Region(2, 2, 4, 4), 0, (255, 0, 0), csc.matrix(0))
    assert out.planes[0][0, 0] == 76  # 0.299 · 255
    assert out.planes[1][0, 0].tolist() == [255, 85]  # V is 255.5 cut off, U is 85.16
    rgb = picture(pixel_format(RGB_888), 8, 8)
    compose.make_border(rgb, Region(2, 2, 4, 4), 0, (255, 1, 2), csc.matrix(0))
    assert rgb.planes[0][0, 0].tolist() == [255, 1, 2]


@pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
def test_fill(form: PixelFormat) -> None:
    out, memory = in_larger_memory(form, 7, 5)
    compose.fill(out, (16, 90, 100))
    colours = {"r": 16, "g": 90, "b": 100, "a": 255, "y": 16, "u": 90, "v": 100, "x": 255}
    for letter, plane in own_size(out).items():
        assert (plane == colours[letter] * (256 if form.bits == 10 else 1)).all()
    assert outside_is_untouched(out, memory)


def test_fill_rounds_and_cuts_off() -> None:
    out = new(RGB_888, 2, 2)
    compose.fill(out, (-5, 300, 1.6))
    assert out.planes[0][1, 1].tolist() == [0, 255, 2]
    compose.fill(out, (float("nan"), float("inf"), float("-inf")))
    assert out.planes[0][1, 1].tolist() == [0, 255, 0]
    grey = new(YUV_400, 2, 2)
    compose.fill(grey, (9,))
    assert (grey.planes[0] == 9).all()


@pytest.mark.parametrize(
    ("inner", "kind", "value"),
    [
        (Region(0, 0, 4, 4), 5, (0, 0, 0)),
        (Region(0, 0, 4, 4), -1, (0, 0, 0)),
        (Region(0, 0, 9, 4), 1, (0, 0, 0)),
        (Region(-1, 0, 4, 4), 1, (0, 0, 0)),
        (Region(0, 0, 0, 4), 1, (0, 0, 0)),
        (Region(0, 0, 4, 4), 0, (0, 0)),
    ],
)
def test_wrong_borders(inner: Region, kind: int, value: tuple[float, ...]) -> None:
    with pytest.raises(NpuError) as caught:
        compose.make_border(picture(pixel_format(RGB_888), 8, 8), inner, kind, value)
    assert caught.value.code == codes.INVALID_PARAM


def test_cost() -> None:
    assert compose.cost(new(NV12, 10, 6), new(RGB_888, 4, 4)) == 76
    assert compose.cost() == 0
    assert compose.INLINE_PIXELS == 4_200_000
