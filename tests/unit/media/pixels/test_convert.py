"""Conversions: every format into every other, against a plain reference; exact where channels only move."""

from __future__ import annotations

import threading

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels import csc
from softnpu.media.pixels.convert import convert, in_bytes
from softnpu.media.pixels.formats import (
    BGR_888,
    NV12,
    NV21,
    RGB_888,
    YUV_400,
    YUV_PLANAR_420,
    PixelFormat,
    pixel_format,
)
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import scratch
from tests.unit.media.media_pictures import (
    ALL,
    channels,
    expected,
    in_larger_memory,
    outside_is_untouched,
    own_size,
    picture,
    worst,
)

SIZES = [(1, 1), (2, 2), (1, 2), (2, 1), (17, 13), (66, 34)]
MATRIX = csc.matrix(csc.DEFAULT)
TEN_BIT, RGBA, ARGB, RGB_FP32, RGB_INT8, XYUV = 18, 16, 14, 1012, 110, 59


def tolerance(source: PixelFormat, target: PixelFormat) -> int:
    """A matrix may be off by one level; whatever only moves is exact."""
    level = 256 if target.bits == 10 else 1
    return level if source.space != target.space else 0


@pytest.mark.parametrize("source", ALL, ids=lambda form: form.name)
def test_into_every_format(source: PixelFormat) -> None:
    for width, height in SIZES:
        src = picture(source, width, height)
        before = [plane.copy() for plane in src.planes]
        for target in ALL:
            out = convert(src, target, MATRIX)
            assert out.format is target
            assert (out.width, out.height) == (width, height)
            wanted = expected(src, target, MATRIX.to_rgb, MATRIX.to_yuv)
            assert worst(out, wanted) <= tolerance(source, target), f"{source} to {target}, {width}x{height}"
        assert all((old == new).all() for old, new in zip(before, src.planes, strict=True))


@pytest.mark.parametrize("target", ALL, ids=lambda form: form.name)
def test_rows_with_gaps(target: PixelFormat) -> None:
    for value in (NV12, YUV_PLANAR_420, 7, RGB_888, RGBA, 69, TEN_BIT, RGB_FP32):
        for width, height in ((17, 13), (64, 6)):
            plain = picture(pixel_format(value), width, height)
            src, _ = in_larger_memory(plain.format, width, height)
            for gap, solid in zip(src.planes, plain.planes, strict=True):
                gap[...] = solid
            out, memory = in_larger_memory(target, width, height)
            assert convert(src, target, MATRIX, out) is out
            same = convert(plain, target, MATRIX)
            assert all((mine == other).all() for mine, other in zip(_seen(out), _seen(same), strict=True))
            assert outside_is_untouched(out, memory), f"{src.format} to {target}"


def _seen(pixels: Pixels) -> list[np.ndarray]:
    return list(channels(pixels).values())


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(("source", "target"), [(NV12, RGB_888), (RGB_888, NV21), (11, BGR_888), (70, 7)])
def test_every_matrix(number: int, source: int, target: int) -> None:
    src = picture(pixel_format(source), 66, 34)
    matrices = csc.matrix(number)
    out = convert(src, pixel_format(target), matrices)
    assert worst(out, expected(src, out.format, matrices.to_rgb, matrices.to_yuv)) <= 1


def test_default_agrees_with_opencv_of_full_range() -> None:
    src = picture(pixel_format(NV12), 64, 48)
    y, uv = src.planes
    full = uv.repeat(2, 0).repeat(2, 1)
    theirs = cv2.cvtColor(np.dstack([y, full[..., 1], full[..., 0]]), cv2.COLOR_YCrCb2RGB)
    ours = convert(src, pixel_format(RGB_888), MATRIX).planes[0]
    assert np.abs(theirs.astype(int) - ours).max() <= 1


def test_narrow_agrees_with_opencv_nv12() -> None:
    src = picture(pixel_format(NV12), 64, 48)
    src.planes[0][...] = src.planes[0].clip(16, 235)
    theirs = cv2.cvtColorTwoPlane(*src.planes, cv2.COLOR_YUV2RGB_NV12)
    ours = convert(src, pixel_format(RGB_888), csc.matrix(1)).planes[0]
    assert np.abs(theirs.astype(int) - ours).max() <= 1


def test_user_matrix_without_saturation_trouble() -> None:
    swap = [0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0]
    src = picture(pixel_format(11), 40, 5)
    out = convert(src, pixel_format(RGB_888), csc.user(swap, swap))
    assert (out.planes[0] == src.planes[0][..., ::-1]).all()
    huge = convert(src, pixel_format(RGB_888), csc.user([1e30] * 12, swap))
    assert (huge.planes[0] == 255).all()


def test_there_and_back_keeps_greys() -> None:
    grey = Pixels(pixel_format(RGB_888), [np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 256, 3)], 256, 1)
    yuv = convert(grey, pixel_format(NV12), MATRIX)
    assert (yuv.planes[0] == np.arange(256)).all()
    assert (yuv.planes[1] == 128).all()
    assert (convert(yuv, grey.format, MATRIX).planes[0] == grey.planes[0]).all()


def test_same_format_is_the_same_picture() -> None:
    src = picture(pixel_format(NV12), 6, 4)
    assert convert(src, src.format, MATRIX) is src
    out = Pixels.empty(src.format, 6, 4)
    assert convert(src, src.format, MATRIX, out) is out
    assert all((mine == other).all() for mine, other in zip(src.planes, out.planes, strict=True))


def test_alpha() -> None:
    rgb = picture(pixel_format(RGB_888), 5, 3)
    nv12 = picture(pixel_format(NV12), 6, 4)
    for form in map(pixel_format, (14, 15, 16, 17)):
        for src in (rgb, nv12):
            assert (channels(convert(src, form, MATRIX))["a"] == 255).all()
            assert (channels(convert(src, form, MATRIX, alpha=7))["a"] == 7).all()
    argb = picture(pixel_format(ARGB), 5, 3)
    kept = convert(argb, pixel_format(RGBA), MATRIX, alpha=7)
    assert (channels(kept)["a"] == channels(argb)["a"]).all()
    assert (channels(convert(rgb, pixel_format(XYUV), MATRIX, alpha=7))["x"] == 7).all()


def test_values_that_do_not_fit_are_cut_off() -> None:
    values = np.array([-300.0, -1.5, 0.5, 1.5, 126.6, 200, 300, np.nan, np.inf, -np.inf, 1e30, 70000], np.float32)
    src = Pixels(pixel_format(RGB_FP32), [values.reshape(1, 4, 3)], 4, 1)
    as_bytes = convert(src, pixel_format(RGB_888), MATRIX).planes[0].ravel()
    assert as_bytes.tolist() == [0, 0, 0, 2, 127, 200, 255, 0, 255, 0, 255, 255]
    as_int8 = convert(src, pixel_format(RGB_INT8), MATRIX).planes[0].ravel()
    assert as_int8.tolist() == [-128, -2, 0, 2, 127, 127, 127, 0, 127, -128, 127, 127]
    grey = Pixels(pixel_format(138), [values.reshape(1, -1)], len(values), 1)
    for value, kind in ((131, np.uint32), (132, np.uint64), (135, np.int32), (136, np.int64)):
        whole = convert(grey, pixel_format(value), MATRIX).planes[0].ravel()
        limits = np.iinfo(kind)
        assert whole.dtype == kind
        assert whole[9] == limits.min
        assert whole[3:6].tolist() == [2, 127, 200]
        assert whole[7] == 0
        assert whole[8] == pytest.approx(limits.max, rel=1e-9)
    assert np.isinf(convert(grey, pixel_format(137), MATRIX).planes[0].ravel()[10])
    words = convert(grey, pixel_format(140), MATRIX).planes[0].ravel()
    assert words[7] == 0x7FC0
    assert words[4] == 0x42FD  # 126.6 lies between 126.5 (0x42FD) and 127
    wide = Pixels(pixel_format(136), [np.array([[-5, 5, 1 << 40]])], 3, 1)
    assert convert(wide, pixel_format(131), MATRIX).planes[0].tolist() == [[0, 5, (1 << 32) - 1]]
    assert convert(wide, pixel_format(YUV_400), MATRIX).planes[0].tolist() == [[0, 5, 255]]


def test_fractions_survive_between_floats() -> None:
    values = np.array([0.25, 100.125, 254.75], np.float32).reshape(1, 1, 3)
    src = Pixels(pixel_format(RGB_FP32), [values], 1, 1)
    for value in (1010, 1011, 1004, 1005, 1013):
        out = convert(src, pixel_format(value), MATRIX)
        assert own_size(out)["r"][0, 0] == 0.25
        assert own_size(out)["g"][0, 0] == 100.125


def test_bfloat16_rounds_to_even() -> None:
    values = np.array([[257.0, 259.0, 256.0, 257.5]], np.float32)  # steps of 2: 257 and 259 lie halfway
    out = convert(Pixels(pixel_format(138), [values], 4, 1), pixel_format(140), MATRIX)
    assert (out.planes[0].astype(np.uint32) << 16).view(np.float32).tolist() == [[256, 260, 256, 258]]


def test_ten_bits_are_the_upper_ones() -> None:
    src = Pixels.empty(pixel_format(TEN_BIT), 2, 2)
    src.planes[0][...] = np.array([[1023, 512], [3, 4]]) << 6
    src.planes[1][...] = 515 << 6
    out = convert(src, pixel_format(NV12), MATRIX)
    assert out.planes[0].tolist() == [[255, 128], [0, 1]]
    assert (out.planes[1] == 128).all()
    assert convert(out, src.format, MATRIX).planes[0].tolist() == [[255 << 8, 128 << 8], [0, 1 << 8]]
    swapped = convert(src, pixel_format(19), MATRIX)
    assert (swapped.planes[1] == src.planes[1][..., ::-1]).all()


def test_in_place() -> None:
    memory = picture(pixel_format(RGB_888), 9, 7).planes[0]
    src = Pixels(pixel_format(RGB_888), [memory], 9, 7)
    wanted = memory[..., ::-1].copy()
    convert(src, pixel_format(BGR_888), MATRIX, Pixels(pixel_format(BGR_888), [memory], 9, 7))
    assert (memory == wanted).all()


def test_taller_than_a_band() -> None:
    src = picture(pixel_format(NV12), 1000, 1101)
    out = convert(src, pixel_format(RGB_888), MATRIX)
    assert worst(out, expected(src, out.format, MATRIX.to_rgb, MATRIX.to_yuv)) <= 1
    back = convert(out, pixel_format(3), MATRIX)
    assert worst(back, expected(out, back.format, MATRIX.to_rgb, MATRIX.to_yuv)) <= 1


def test_threads_do_not_share_scratch_memory() -> None:
    sources = [picture(pixel_format(NV12), 320, 240, seed) for seed in range(4)]
    wanted = [convert(src, pixel_format(RGB_888), MATRIX).planes[0] for src in sources]
    right: list[bool] = []

    def work(index: int) -> None:
        for _ in range(20):
            right.append(
                bool((convert(sources[index], pixel_format(RGB_888), MATRIX).planes[0] == wanted[index]).all())
            )

    threads = [threading.Thread(target=work, args=(index,), daemon=True) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert right == [True] * 80


def test_scratch_memory_of_huge_pictures_is_not_kept() -> None:
    small = scratch("test", (10,))
    assert np.shares_memory(small, scratch("test", (5, 2)))
    large = scratch("test", (40, 1 << 20))
    assert large.nbytes == 40 << 20
    assert not np.shares_memory(large, scratch("test", (40, 1 << 20)))
    assert np.shares_memory(small, scratch("test", (10,)))


@pytest.mark.parametrize(("width", "height"), [(0, 0), (0, 4), (4, 0)])
def test_nothing_to_convert(width: int, height: int) -> None:
    src = Pixels.empty(pixel_format(NV12), width, height)
    assert convert(src, pixel_format(RGB_888), MATRIX).planes[0].size == 0


def test_wrong_output() -> None:
    src = picture(pixel_format(NV12), 6, 4)
    for out in (Pixels.empty(pixel_format(RGB_888), 6, 5), Pixels.empty(pixel_format(BGR_888), 6, 4)):
        with pytest.raises(NpuError) as caught:
            convert(src, pixel_format(RGB_888), MATRIX, out)
        assert caught.value.code == codes.INVALID_PARAM


def test_every_format_has_bytes() -> None:
    assert all(in_bytes(form).is_8bit and in_bytes(form).planes == form.planes for form in ALL)
