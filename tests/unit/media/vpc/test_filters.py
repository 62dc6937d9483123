"""Filters, flips and rotations against OpenCV called on single planes, and against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.vpc import filters

YUV_400, NV12, NV21, SP422, SP444, YUYV, UYVY, PACKED_444, RGB, BGR, RGBA = 0, 1, 2, 3, 5, 7, 8, 11, 12, 13, 16
PLANAR_RGB, RGB_FP32, Y_FP16, Y_INT64, PLANAR_440 = 69, 1012, 137, 136, 65
VALUE = (200.0, 40.0, 90.0, 10.0)
Array = np.ndarray[Any, Any]


def picture(value: int, width: int = 23, height: int = 17, seed: int = 1) -> Pixels:
    """Random pixels in planes with room at the end of each row, as device memory has it."""
    pixels = Pixels.empty(pixel_format(value), width, height)
    random = np.random.default_rng(seed)
    for index, plane in enumerate(pixels.planes):
        wide = random.integers(0, 256, (plane.shape[0] + 2, plane.shape[1] + 5, *plane.shape[2:])).astype(plane.dtype)
        pixels.planes[index] = wide[: plane.shape[0], : plane.shape[1]]
    return pixels


def luma(pixels: Pixels) -> Array:
    """Y of a packed 4:2:2 picture."""
    first = pixels.format.channels.index("y")
    plane = pixels.planes[0][:, :, first::2]
    return plane.reshape(plane.shape[0], -1)[:, : pixels.width]


def chroma(pixels: Pixels, name: str) -> Array:
    return pixels.planes[0][:, :, pixels.format.channels.index(name)]


def padded(plane: Array, value: tuple[float, ...], by: int = 2) -> Array:
    return cv2.copyMakeBorder(plane, by, by, by, by, cv2.BORDER_CONSTANT, value=value)


def cut(plane: Array, by: int = 2) -> Array:
    return plane[by:-by, by:-by]


CALLS: dict[str, tuple[Callable[..., None], Callable[..., Array]]] = {
    "blur": (
        lambda src, out, border: filters.blur(src, out, (3, 5), border, VALUE),
        lambda plane, code: cv2.blur(plane, (3, 5), borderType=code),
    ),
    "gaussian": (
        lambda src, out, border: filters.gaussian(src, out, (5, 3), 1.5, 0.0, border, VALUE),
        lambda plane, code: cv2.GaussianBlur(plane, (5, 3), 1.5, sigmaY=1.5, borderType=code),
    ),
    "filter2d": (
        lambda src, out, border: filters.filter2d(
            src, out, np.array([[0.5, 0, -1], [2, 1, 0], [0, -1.5, 0]]), 7.0, border, VALUE
        ),
        lambda plane, code: cv2.filter2D(
            plane, -1, np.array([[0.5, 0, -1], [2, 1, 0], [0, -1.5, 0]], np.float32), delta=7.0, borderType=code
        ),
    ),
    "erode": (
        lambda src, out, border: filters.erode(src, out, (5, 3), 1, border, VALUE),
        lambda plane, code: cv2.erode(plane, np.ones((3, 5)), borderType=code),
    ),
    "dilate": (
        lambda src, out, border: filters.dilate(src, out, (3, 3), 1, border, VALUE),
        lambda plane, code: cv2.dilate(plane, np.ones((3, 3)), borderType=code),
    ),
}
BORDERS = {1: cv2.BORDER_REPLICATE, 2: cv2.BORDER_REFLECT, 3: cv2.BORDER_REFLECT_101}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("value", [YUV_400, NV12, SP422, PACKED_444, BGR, RGBA, PLANAR_RGB, RGB_FP32])
def test_filter_is_opencvs_on_each_plane(name: str, border: int, value: int) -> None:
    ours, theirs = CALLS[name]
    src, out = picture(value), picture(value, seed=2)
    ours(src, out, border)
    for source, result in zip(src.planes, out.planes, strict=True):
        np.testing.assert_array_equal(result, theirs(np.ascontiguousarray(source), BORDERS[border]))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("value", "edges"),
    [
        (YUV_400, [(200,)]),
        (NV12, [(200,), (40, 90)]),
        (NV21, [(200,), (90, 40)]),
        (RGB, [(200, 40, 90)]),
        (BGR, [(90, 40, 200)]),
        (RGBA, [(200, 40, 90, 10)]),
        (PLANAR_RGB, [(200,), (40,), (90,)]),
    ],
)
def test_a_constant_border_is_given_in_the_order_of_the_colour_space(name: str, value: int, edges: list[Any]) -> None:
    ours, theirs = CALLS[name]
    src, out = picture(value), picture(value, seed=2)
    ours(src, out, 0)
    for source, result, edge in zip(src.planes, out.planes, edges, strict=True):
        wide = padded(np.ascontiguousarray(source), edge)
        np.testing.assert_array_equal(result, cut(theirs(wide, cv2.BORDER_REPLICATE)))


@pytest.mark.parametrize("iterations", [2, 7])
def test_iterations_are_repeated_erosions(iterations: int) -> None:
    src, out = picture(YUV_400), picture(YUV_400, seed=2)
    filters.erode(src, out, (3, 3), iterations, 0, VALUE)
    expected = np.ascontiguousarray(src.planes[0])
    for _ in range(iterations):
        wide = np.pad(expected, 1, constant_values=200)
        expected = np.lib.stride_tricks.sliding_window_view(wide, (3, 3)).min((2, 3))
    np.testing.assert_array_equal(out.planes[0], expected)


@pytest.mark.parametrize("value", [YUV_400, NV21, PACKED_444, RGBA, RGB_FP32])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_median_against_numpy(value: int, kernel: int) -> None:
    src, out = picture(value), picture(value, seed=2)
    filters.median(src, out, kernel)
    reach = kernel // 2
    for source, result in zip(src.planes, out.planes, strict=True):
        wide = np.pad(source, [(reach, reach), (reach, reach), (0, 0)][: source.ndim], mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), axis=(0, 1))
        np.testing.assert_array_equal(result, np.median(windows, axis=(-2, -1)))


@pytest.mark.parametrize("value", [YUYV, UYVY, 9, 10])
@pytest.mark.parametrize("width", [22, 23])
def test_packed_422_is_filtered_channel_by_channel(value: int, width: int) -> None:
    src, out = picture(value, width), picture(value, width, seed=2)
    filters.blur(src, out, (3, 3), 0, VALUE)
    for source, result, edge in [
        (luma(src), luma(out), 200),
        (chroma(src, "u"), chroma(out, "u"), 40),
        (chroma(src, "v"), chroma(out, "v"), 90),
    ]:
        np.testing.assert_array_equal(result, cut(cv2.blur(padded(np.ascontiguousarray(source), (edge,)), (3, 3))))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("border", [0, 1])
@pytest.mark.parametrize("shift", [0, 1])
def test_in_place_and_overlapping_memory(name: str, border: int, shift: int) -> None:
    ours, _ = CALLS[name]
    memory = np.random.default_rng(3).integers(0, 256, (20, 30), np.uint8)
    form = pixel_format(YUV_400)
    expected = Pixels.empty(form, 25, 15)
    ours(Pixels(form, [memory[:15, :25].copy()], 25, 15), expected, border)
    out = memory[shift : 15 + shift, shift : 25 + shift]
    ours(Pixels(form, [memory[:15, :25]], 25, 15), Pixels(form, [out], 25, 15), border)
    np.testing.assert_array_equal(out, expected.planes[0])


def test_a_view_that_opencv_cannot_write_to() -> None:
    src = picture(RGB)
    memory = np.zeros((17, 46, 3), np.uint8)
    out = Pixels(src.format, [memory[:, ::2]], 23, 17)
    filters.blur(src, out, (3, 3), 1)
    np.testing.assert_array_equal(memory[:, ::2], cv2.blur(src.planes[0], (3, 3), borderType=cv2.BORDER_REPLICATE))
    assert not memory[:, 1::2].any()


@pytest.mark.parametrize("value", [YUV_400, NV12, YUYV, RGB])
def test_one_pixel(value: int) -> None:
    src, out = picture(value, 1, 1), picture(value, 1, 1, seed=2)
    filters.median(src, out, 5)
    filters.gaussian(src, out, (5, 5), 1, border=1)
    filters.flip(src, out, 2)
    filters.rotate(src, out, 0)
    first = src.format.channels.index("r" if value == RGB else "y")
    assert out.planes[0].reshape(-1)[first] == src.planes[0].reshape(-1)[first]


def refusal(call: Callable[[], object]) -> int:
    with pytest.raises(NpuError) as caught:
        call()
    assert caught.value.text
    assert caught.value.remedy
    return caught.value.code


@pytest.mark.parametrize("kernel", [(2, 3), (3, 0), (-1, 3), (7, 7), (5, 4)])
def test_kernels_of_other_sizes_are_refused(kernel: tuple[int, int]) -> None:
    src, out = picture(YUV_400), picture(YUV_400)
    assert refusal(lambda: filters.blur(src, out, kernel)) == codes.INVALID_PARAM
    assert refusal(lambda: filters.gaussian(src, out, kernel, 1.0)) == codes.INVALID_PARAM
    assert refusal(lambda: filters.erode(src, out, kernel)) == codes.INVALID_PARAM
    weights = np.ones(np.abs(kernel[::-1]) if min(kernel) >= 0 else (2, 2))
    assert refusal(lambda: filters.filter2d(src, out, weights)) == codes.INVALID_PARAM


def test_iterations_have_limits() -> None:
    src, out = picture(YUV_400), picture(YUV_400)
    filters.dilate(src, out, (5, 5), 100, 1)
    assert (out.planes[0] == src.planes[0].max()).all()
    for iterations in (0, -1, 101):
        assert refusal(lambda n=iterations: filters.erode(src, out, (3, 3), n)) == codes.INVALID_PARAM  # type: ignore[misc]
    filters.limits((3, 3), 1, 1)
    assert refusal(lambda: filters.limits((3, 3), 2, 1)) == codes.INVALID_PARAM


def test_pictures_that_do_not_fit_are_refused() -> None:
    src = picture(NV12, 24, 18)
    assert refusal(lambda: filters.blur(src, picture(NV21, 24, 18), (3, 3))) == codes.INVALID_PARAM
    assert refusal(lambda: filters.blur(src, picture(NV12, 24, 16), (3, 3))) == codes.INVALID_PARAM
    lame = Pixels(src.format, src.planes[:1], 24, 18)
    assert refusal(lambda: filters.median(lame, src, 3)) == codes.INVALID_PARAM
    assert refusal(lambda: filters.flip(src, lame, 0)) == codes.INVALID_PARAM
    wide = Pixels(src.format, [plane.astype(np.uint16) for plane in src.planes], 24, 18)
    assert refusal(lambda: filters.flip(wide, src, 0)) == codes.INVALID_PARAM
    nothing = Pixels(pixel_format(YUV_400), [np.empty((0, 0), np.uint8)], 0, 0)
    assert refusal(lambda: filters.blur(nothing, nothing, (3, 3))) == codes.INVALID_PARAM


@pytest.mark.parametrize("value", [Y_FP16, Y_INT64, 140, 110])
def test_values_without_arithmetic_are_refused(value: int) -> None:
    src, out = picture(value), picture(value)
    assert refusal(lambda: filters.blur(src, out, (3, 3))) == codes.API_NOT_SUPPORT
    assert refusal(lambda: filters.median(src, out, 3)) == codes.API_NOT_SUPPORT


def test_other_arguments_are_checked() -> None:
    src, out = picture(YUV_400), picture(YUV_400)
    nan = float("nan")
    for call in [
        lambda: filters.blur(src, out, (3, 3), 4),
        lambda: filters.blur(src, out, (3, 3), -1),
        lambda: filters.blur(src, out, (3, 3), 0, (nan,)),
        lambda: filters.gaussian(src, out, (3, 3), nan),
        lambda: filters.gaussian(src, out, (3, 3), 1, float("inf")),
        lambda: filters.filter2d(src, out, np.full((3, 3), nan)),
        lambda: filters.filter2d(src, out, np.ones(3)),
        lambda: filters.filter2d(src, out, np.ones((3, 3)), nan),
        lambda: filters.flip(src, out, 3),
        lambda: filters.rotate(src, out, -1),
        lambda: filters.rotate(src, out, 0),
    ]:
        assert refusal(call) == codes.INVALID_PARAM


def test_what_opencv_refuses_is_an_error_of_ours() -> None:
    with pytest.raises(NpuError, match="OpenCV"), filters.guarded():
        cv2.medianBlur(np.zeros((3, 3), np.uint8), 2)


@pytest.mark.parametrize("value", [YUV_400, NV12, SP422, PACKED_444, RGB, RGBA, RGB_FP32, Y_FP16, Y_INT64, 1007, 127])
@pytest.mark.parametrize("in_place", [False, True])
def test_flip(value: int, in_place: bool) -> None:
    for mode, steps in enumerate([(1, -1), (-1, 1), (-1, -1)]):
        src = picture(value)
        expected = [plane[:: steps[0], :: steps[1]].copy() for plane in src.planes]
        out = src if in_place else picture(value, seed=2)
        filters.flip(src, out, mode)
        for result, wanted in zip(out.planes, expected, strict=True):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("value", [YUYV, UYVY, 9, 10])
@pytest.mark.parametrize("width", [22, 23])
def test_flip_of_packed_422_keeps_its_channels(value: int, width: int) -> None:
    src, out = picture(value, width), picture(value, width, seed=2)
    filters.flip(src, out, 0)
    np.testing.assert_array_equal(luma(out), luma(src)[:, ::-1])
    for name in "uv":
        np.testing.assert_array_equal(chroma(out, name), chroma(src, name)[:, ::-1])


@pytest.mark.parametrize("value", [YUV_400, NV12, NV21, SP444, PACKED_444, BGR, RGBA, RGB_FP32, Y_INT64, PLANAR_RGB])
def test_rotate_clockwise(value: int) -> None:
    src = picture(value)
    for angle, (width, height) in enumerate([(17, 23), (23, 17), (17, 23)]):
        out = picture(value, width, height, seed=2)
        filters.rotate(src, out, angle)
        for source, result in zip(src.planes, out.planes, strict=True):
            np.testing.assert_array_equal(result, np.rot90(source, -(angle + 1)))


@pytest.mark.parametrize("value", [SP422, YUYV, UYVY, 10])
@pytest.mark.parametrize("angle", [0, 2])
def test_rotate_422_samples_the_chroma_anew(value: int, angle: int) -> None:
    src, out = picture(value, 22, 16), picture(value, 16, 22, seed=2)
    filters.rotate(src, out, angle)
    packed = src.format.packed
    np.testing.assert_array_equal(
        luma(out) if packed else out.planes[0], np.rot90(luma(src) if packed else src.planes[0], -(angle + 1))
    )
    for index, name in enumerate("uv"):
        before = chroma(src, name) if packed else src.planes[1][:, :, index]
        turned = np.rot90(before.repeat(2, axis=1), -(angle + 1)).astype(int)
        wanted = (turned[:, ::2] + turned[:, 1::2] + 1) // 2
        after = chroma(out, name) if packed else out.planes[1][:, :, index]
        np.testing.assert_array_equal(after, wanted)


def test_rotate_half_a_turn_keeps_sub_sampling_exact() -> None:
    src, out = picture(PLANAR_440, 23, 18), picture(PLANAR_440, 23, 18, seed=2)
    filters.rotate(src, out, 1)
    for source, result in zip(src.planes, out.planes, strict=True):
        np.testing.assert_array_equal(result, source[::-1, ::-1])


def test_rotate_in_place() -> None:
    src = picture(RGB, 15, 15)
    expected = np.rot90(src.planes[0], -1).copy()
    filters.rotate(src, src, 0)
    np.testing.assert_array_equal(src.planes[0], expected)
