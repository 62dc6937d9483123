"""Scaling: OpenCV's and TensorFlow's mappings against formulas, every format and type, rows with gaps."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels.formats import NV12, RGB_888, YUV_400, PixelFormat, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.scale import INTERPOLATIONS, resize
from tests.unit.media.media_pictures import ALL, channels, decode, in_larger_memory, outside_is_untouched, picture

Array = np.ndarray[Any, Any]
SIZES = [((17, 13), (34, 26)), ((34, 26), (17, 13)), ((40, 30), (23, 51)), ((1, 1), (5, 4)), ((9, 7), (1, 1))]
INT8, INT32, UINT32, UINT64, BF16, FP16, TEN_BIT, YUYV, RGB_FP16 = 133, 135, 131, 132, 140, 137, 18, 7, 1010


def axis(inputs: int, outputs: int, corners: bool) -> tuple[Array, Array, Array]:
    """Two neighbours and the weight of the second for each output position."""
    at = np.arange(outputs) * (inputs / outputs)
    if corners:
        at = (np.arange(outputs) + 0.5) * (inputs / outputs) - 0.5
    at = at.clip(0, inputs - 1)
    low = np.floor(at).astype(int)
    return low, np.minimum(low + 1, inputs - 1), at - low


def bilinear(plane: Array, size: tuple[int, int], corners: bool) -> Array:
    """The formula in float64: `corners` maps corner to corner, else first pixel to first pixel."""
    values = plane.astype(np.float64).reshape(*plane.shape[:2], -1)
    low, high, part = axis(values.shape[0], size[1], corners)
    values = values[low] * (1 - part)[:, None, None] + values[high] * part[:, None, None]
    low, high, part = axis(values.shape[1], size[0], corners)
    values = values[:, low] * (1 - part)[None, :, None] + values[:, high] * part[None, :, None]
    return values.reshape(size[1], size[0], *plane.shape[2:])


def picks(inputs: int, outputs: int, interpolation: str) -> Array:
    """OpenCV multiplies by the inverse of a double, TensorFlow by a float: that decides where a position is a whole number."""
    if interpolation == "nearest":
        at = np.arange(outputs) * (1 / (outputs / inputs))
    else:
        at = np.arange(outputs, dtype=np.float32) * np.float32(inputs / outputs)
    return np.minimum(np.floor(at).astype(int), inputs - 1)


def nearest(plane: Array, size: tuple[int, int], interpolation: str) -> Array:
    return plane[picks(plane.shape[0], size[1], interpolation)][:, picks(plane.shape[1], size[0], interpolation)]


def scaled(src: Pixels, size: tuple[int, int], interpolation: str) -> Pixels:
    out = Pixels.empty(src.format, *size)
    resize(src, out, interpolation)
    return out


@pytest.mark.parametrize("value", [YUV_400, NV12, RGB_888, 16, 55, 69, 61, 59])
@pytest.mark.parametrize(("interpolation", "kind"), [("bilinear", cv2.INTER_LINEAR), ("nearest", cv2.INTER_NEAREST)])
def test_bytes_are_scaled_as_opencv_does(value: int, interpolation: str, kind: int) -> None:
    for before, after in SIZES:
        src = picture(pixel_format(value), *before)
        out = scaled(src, after, interpolation)
        for source, target in zip(src.planes, out.planes, strict=True):
            theirs = cv2.resize(source, (target.shape[1], target.shape[0]), interpolation=kind)
            assert (theirs == target).all()


@pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
@pytest.mark.parametrize("interpolation", ["bilinear", "bilinear_tf"])
def test_bilinear_of_every_format(form: PixelFormat, interpolation: str) -> None:
    step = {10: 64, 8: 1}[form.bits]
    for before, after in (((40, 30), (24, 52)), ((17, 13), (33, 7))):
        src = picture(form, *before)
        out = scaled(src, after, interpolation)
        for source, target in _planes(src, out):
            size = (target.shape[1], target.shape[0])
            wanted = bilinear(decode(source, form), size, interpolation == "bilinear")
            assert np.abs(decode(target, form) - wanted).max() <= step, f"{form} {before} to {after}"


@pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
@pytest.mark.parametrize("interpolation", ["nearest", "nearest_tf"])
def test_nearest_of_every_format_moves_values(form: PixelFormat, interpolation: str) -> None:
    for before, after in (((40, 30), (24, 52)), ((16, 12), (32, 6))):
        src = picture(form, *before)
        out = scaled(src, after, interpolation)
        for source, target in _planes(src, out):
            assert (target == nearest(source, (target.shape[1], target.shape[0]), interpolation)).all()


def _planes(src: Pixels, out: Pixels) -> list[tuple[Array, Array]]:
    """What is scaled together: the planes, or luma and chroma of packed 4:2:2."""
    if not src.format.packed:
        return list(zip(src.planes, out.planes, strict=True))
    first, second = channels(src), channels(out)
    chroma = [(first[letter][:, ::2], second[letter][:, ::2]) for letter in "uv"]
    return [(first["y"], second["y"]), *[(a.astype(np.uint8), b.astype(np.uint8)) for a, b in chroma]]


def test_tensorflow_begins_at_the_first_pixel() -> None:
    src = Pixels(pixel_format(YUV_400), [np.array([[0, 100]], np.uint8)], 2, 1)
    assert scaled(src, (4, 1), "bilinear_tf").planes[0].tolist() == [[0, 50, 100, 100]]
    assert scaled(src, (4, 1), "bilinear").planes[0].tolist() == [[0, 25, 75, 100]]


@pytest.mark.parametrize(("before", "after"), [((30, 20), (60, 40)), ((60, 40), (27, 16)), ((60, 20), (30, 40))])
def test_high_order_is_area_and_bicubic(before: tuple[int, int], after: tuple[int, int]) -> None:
    src = picture(pixel_format(NV12), *before)
    out = scaled(src, after, "high_order")
    for source, target in zip(src.planes, out.planes, strict=True):
        size = (target.shape[1], target.shape[0])
        small = (min(source.shape[1], size[0]), min(source.shape[0], size[1]))
        theirs = cv2.resize(source, small, interpolation=cv2.INTER_AREA) if small != source.shape[1::-1] else source
        if small != size:
            theirs = cv2.resize(theirs, size, interpolation=cv2.INTER_CUBIC)
        assert (theirs == target).all()


@pytest.mark.parametrize("value", [NV12, RGB_888, TEN_BIT, RGB_FP16, INT8, YUYV])
def test_high_order_keeps_a_smooth_picture(value: int) -> None:
    form = pixel_format(value)
    x, y = np.meshgrid(np.linspace(0, 6, 320), np.linspace(0, 4, 240))
    wave = (60 + 50 * np.sin(x) * np.cos(y)) * (256 if form.bits == 10 else 1)
    src = Pixels.empty(form, 320, 240)
    for plane in src.planes:
        part = cv2.resize(wave, (plane.shape[1], plane.shape[0]))
        plane[...] = part if plane.ndim == 2 else part[..., None]
    back = scaled(scaled(src, (160, 120), "high_order"), (320, 240), "high_order")
    for source, target in zip(src.planes, back.planes, strict=True):
        error = ((decode(source, form) - decode(target, form)) / (256 if form.bits == 10 else 1)).var()
        assert 10 * np.log10(255**2 / max(error, 1e-9)) > 45


@pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
def test_rows_with_gaps(form: PixelFormat) -> None:
    for interpolation in INTERPOLATIONS:
        plain = picture(form, 34, 26)
        src, _ = in_larger_memory(form, 34, 26)
        for gap, solid in zip(src.planes, plain.planes, strict=True):
            gap[...] = solid
        out, memory = in_larger_memory(form, 17, 41)
        resize(src, out, interpolation)
        same = scaled(plain, (17, 41), interpolation)
        for letter, values in channels(same).items():
            assert (channels(out)[letter] == values).all()
        assert outside_is_untouched(out, memory), f"{form} {interpolation}"


def test_same_size_is_a_copy() -> None:
    for form in ALL:
        for interpolation in INTERPOLATIONS:
            src = picture(form, 6, 4)
            out = scaled(src, (6, 4), interpolation)
            assert all((mine == other).all() for mine, other in zip(src.planes, out.planes, strict=True))


@pytest.mark.parametrize("value", [INT32, UINT32, UINT64, INT8, FP16, BF16])
def test_large_and_small_values(value: int) -> None:
    form = pixel_format(value)
    flat = Pixels.empty(form, 8, 8)
    extreme = 0x7F7F if value == BF16 else (np.finfo("float16").max if value == FP16 else np.iinfo(form.type).max)
    flat.planes[0][...] = extreme
    for interpolation in ("bilinear", "bilinear_tf", "high_order"):
        out = scaled(flat, (5, 13), interpolation)
        assert decode(out.planes[0], form) == pytest.approx(float(decode(flat.planes[0], form)[0, 0]), rel=1e-6)


@pytest.mark.parametrize("interpolation", ["bilinear", "bilinear_tf"])
def test_all_32_bits_count(interpolation: str) -> None:
    flat = Pixels.empty(pixel_format(UINT32), 8, 8)
    flat.planes[0][...] = 4_000_000_001
    assert (scaled(flat, (5, 13), interpolation).planes[0] == 4_000_000_001).all()


def test_ten_bits_leave_the_lower_bits_empty() -> None:
    out = scaled(picture(pixel_format(TEN_BIT), 30, 20), (44, 18), "bilinear")
    assert not any((plane & 63).any() for plane in out.planes)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize(("before", "after"), [((32768, 1), (5, 3)), ((5, 3), (32768, 1)), ((2, 32768), (32768, 2))])
def test_long_sides(interpolation: str, before: tuple[int, int], after: tuple[int, int]) -> None:
    src = Pixels.empty(pixel_format(NV12), *before)
    for plane in src.planes:
        plane[...] = 77
    out = scaled(src, after, interpolation)
    assert all((plane == 77).all() for plane in out.planes)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_in_place(interpolation: str) -> None:
    whole = picture(pixel_format(RGB_888), 40, 40)
    part = Pixels(whole.format, [whole.planes[0][4:24, 4:24].copy()], 20, 20)
    wanted = scaled(part, (30, 30), interpolation)
    out = whole.crop(8, 8, 30, 30)
    resize(whole.crop(4, 4, 20, 20), out, interpolation)
    assert (out.planes[0] == wanted.planes[0]).all()


def test_nothing_to_scale() -> None:
    resize(picture(pixel_format(NV12), 4, 4), Pixels.empty(pixel_format(NV12), 0, 0))
    with pytest.raises(NpuError) as caught:
        resize(Pixels.empty(pixel_format(NV12), 0, 4), Pixels.empty(pixel_format(NV12), 4, 4))
    assert caught.value.code == codes.INVALID_PARAM


def test_wrong_arguments() -> None:
    src = picture(pixel_format(NV12), 4, 4)
    for out, interpolation in ((Pixels.empty(pixel_format(2), 8, 8), "bilinear"), (src, "lanczos")):
        with pytest.raises(NpuError) as caught:
            resize(src, out, interpolation)
        assert caught.value.code == codes.INVALID_PARAM


def test_errors_of_opencv_have_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise cv2.error("too large")

    monkeypatch.setattr(cv2, "resize", refuse)
    with pytest.raises(NpuError, match="too large") as caught:
        scaled(picture(pixel_format(NV12), 4, 4), (8, 8), "bilinear")
    assert caught.value.code == codes.INVALID_PARAM


def test_a_result_elsewhere_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cv2.resize
    monkeypatch.setattr(cv2, "resize", lambda src, size, dst=None, **rest: real(src, size, **rest))
    src = picture(pixel_format(RGB_888), 10, 10)
    assert (scaled(src, (5, 6), "bilinear").planes[0] == real(src.planes[0], (5, 6))).all()
