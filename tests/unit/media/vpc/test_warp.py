"""Warps and tables against OpenCV, and against pictures whose result is known."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.vpc import warp

Array = np.ndarray[Any, Any]
FLAGS = {"bilinear": cv2.INTER_LINEAR, "nearest": cv2.INTER_NEAREST}
MATRIX = np.array([[0.9, 0.2, 3.5], [-0.15, 1.1, -2.25]])
SOURCE, TARGET = [(2, 3), (30, 5), (6, 25)], [(5, 1), (28, 9), (2, 22)]
CORNERS, QUAD = [(0, 0), (35, 0), (35, 27), (0, 27)], [(3, 2), (30, 5), (33, 24), (1, 22)]
VALUE = (200.0, 40.0, 90.0, 10.0)


def picture(value: int, width: int = 36, height: int = 28, seed: int = 1) -> Pixels:
    pixels = Pixels.empty(pixel_format(value), width, height)
    random = np.random.default_rng(seed)
    for index, plane in enumerate(pixels.planes):
        wide = random.integers(0, 256, (plane.shape[0], plane.shape[1] + 5, *plane.shape[2:])).astype(plane.dtype)
        pixels.planes[index] = wide[:, : plane.shape[1]]
    return pixels


def gradient(value: int, width: int, height: int) -> Pixels:
    """Every channel says where it is: 2x + 3y, taken at the middle of the pixels that a value stands for."""
    pixels = Pixels.empty(pixel_format(value), width, height)
    for plane, spec in zip(pixels.planes, pixels.format.planes, strict=True):
        x = spec.x * np.arange(plane.shape[1]) + (spec.x - 1) / 2
        y = spec.y * np.arange(plane.shape[0]) + (spec.y - 1) / 2
        field = 2 * x + 3 * y[:, None]
        plane[...] = field if plane.ndim == 2 else field[:, :, None]
    return pixels


@pytest.mark.parametrize("value", [0, 11, 12, 13, 16, 69, 138, 1012])
@pytest.mark.parametrize("interpolation", FLAGS)
@pytest.mark.parametrize("border", [0, 1])
def test_warp_affine_is_opencvs_on_full_planes(value: int, interpolation: str, border: int) -> None:
    src, out = picture(value), picture(value, 41, 19, seed=2)
    warp.warp_affine(src, out, MATRIX, interpolation, border, VALUE)
    edges = {11: (200, 40, 90), 12: (200, 40, 90), 13: (90, 40, 200), 16: VALUE, 1012: (200, 40, 90)}
    for index, (source, result) in enumerate(zip(src.planes, out.planes, strict=True)):
        edge = edges.get(value, (VALUE[index],))
        expected = cv2.warpAffine(
            np.ascontiguousarray(source),
            MATRIX,
            (41, 19),
            flags=FLAGS[interpolation],
            borderMode=border,
            borderValue=edge,
        )
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("value", [1, 2, 3, 7, 55, 65])
def test_chroma_goes_where_its_luma_goes(value: int) -> None:
    """A gradient stays one: chroma that is placed wrong by half a pixel would be off by more than one."""
    src, out = gradient(value, 40, 30), picture(value, 24, 20, seed=2)
    if src.format.packed:
        x = np.arange(40)
        src.planes[0][:, :, 0::2] = (2 * x + 3 * np.arange(30)[:, None]).reshape(30, 20, 2)
        src.planes[0][:, :, 1::2] = (2 * (x[::2] + 0.5) + 3 * np.arange(30)[:, None])[:, :, None]
    # out(x, y) = src(x + 7, y + 4): shifted by an odd number of pixels.
    warp.warp_affine(src, out, np.array([[1, 0, -7], [0, 1, -4]], float))
    if src.format.packed:
        planes = [out.planes[0][:, :, 0::2].reshape(20, 24), out.planes[0][:, :, 1], out.planes[0][:, :, 3]]
        steps = [(1, 1), (2, 1), (2, 1)]
    else:
        planes, steps = out.planes, [(spec.x, spec.y) for spec in out.format.planes]
    for plane, (step_x, step_y) in zip(planes, steps, strict=True):
        x = step_x * np.arange(plane.shape[1]) + (step_x - 1) / 2 + 7
        y = step_y * np.arange(plane.shape[0]) + (step_y - 1) / 2 + 4
        wanted = 2 * x + 3 * y[:, None]
        difference = np.abs(plane.astype(float) - (wanted if plane.ndim == 2 else wanted[:, :, None]))
        assert difference.max() <= 1.0


@pytest.mark.parametrize("value", [0, 1, 3, 8, 12, 55, 63, 65])
@pytest.mark.parametrize("by_table", [False, True])
def test_half_a_turn_is_exact(value: int, by_table: bool) -> None:
    """The middle of the picture stays where it is, in every plane: half a chroma value aside would show."""
    src, out = picture(value, 40, 30), picture(value, 40, 30, seed=2)
    if by_table:
        y, x = np.mgrid[29:-1:-1, 39:-1:-1]
        warp.lut_remap(src, out, warp.remap_lut(x, y))
    else:
        warp.warp_affine(src, out, np.array([[-1.0, 0, 39], [0, -1, 29]]))
    for source, result in zip(src.planes, out.planes, strict=True):
        turned = source[::-1, ::-1]
        np.testing.assert_array_equal(result, turned[:, :, [0, 3, 2, 1]] if value == 8 else turned)


def test_a_matrix_of_three_rows() -> None:
    src, out, same = picture(12), picture(12, seed=2), picture(12, seed=3)
    warp.warp_affine(src, out, np.vstack([MATRIX, [0, 0, 1]]))
    warp.warp_affine(src, same, MATRIX)
    np.testing.assert_array_equal(out.planes[0], same.planes[0])
    tilted = np.vstack([MATRIX, [0.001, 0.002, 1]])
    warp.warp_affine(src, out, tilted, border=1)
    expected = cv2.warpPerspective(src.planes[0], tilted, (36, 28), borderMode=cv2.BORDER_REPLICATE)
    np.testing.assert_array_equal(out.planes[0], expected)


@pytest.mark.parametrize("value", [1, 12])
def test_in_place(value: int) -> None:
    src, out = picture(value), picture(value, seed=2)
    warp.warp_affine(src, out, MATRIX)
    warp.warp_affine(src, src, MATRIX)
    for result, expected in zip(src.planes, out.planes, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_matrices_are_opencvs() -> None:
    np.testing.assert_array_equal(
        warp.affine_transform(SOURCE, TARGET), cv2.getAffineTransform(np.float32(SOURCE), np.float32(TARGET))
    )
    turned = warp.rotation_matrix((10, 20), 30, 1.5)
    np.testing.assert_allclose(turned @ (10, 20, 1), (10, 20))
    np.testing.assert_allclose(turned[:, :2], 1.5 * np.array([[0.75**0.5, 0.5], [-0.5, 0.75**0.5]]))


def test_tables_say_where_each_pixel_comes_from() -> None:
    table = warp.affine_lut(SOURCE, TARGET, 36, 28)
    assert table.dtype == np.float32
    for source, target in zip(SOURCE, TARGET, strict=True):
        np.testing.assert_allclose(table[target[1], target[0]], source, atol=1e-4)
    table = warp.perspective_lut(CORNERS, QUAD, 36, 28)
    for source, target in zip(CORNERS, QUAD, strict=True):
        np.testing.assert_allclose(table[target[1], target[0]], source, atol=1e-3)


@pytest.mark.parametrize("border", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("interpolation", FLAGS)
def test_lut_remap_is_opencvs(border: int, interpolation: str) -> None:
    random = np.random.default_rng(6)
    map1, map2 = random.uniform(-9, 45, (19, 41)), random.uniform(-9, 37, (19, 41))
    src, out = picture(12), picture(12, 41, 19, seed=2)
    warp.lut_remap(src, out, warp.remap_lut(map1, map2), interpolation, border, VALUE)
    code = [cv2.BORDER_CONSTANT, cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT, cv2.BORDER_REFLECT_101, cv2.BORDER_WRAP]
    expected = cv2.remap(
        np.ascontiguousarray(src.planes[0]), map1.astype(np.float32), map2.astype(np.float32),
        FLAGS[interpolation], borderMode=code[border], borderValue=(200, 40, 90),
    )  # fmt: skip
    np.testing.assert_array_equal(out.planes[0], expected)


@pytest.mark.parametrize("value", [0, 1, 7, 13, 138])
def test_a_table_gives_what_the_matrix_gives(value: int) -> None:
    src = gradient(value, 36, 28)
    if src.format.packed:
        src.planes[0][...] = np.arange(18, dtype=np.uint8)[:, None] * 5
    by_table, by_matrix = picture(value, seed=2), picture(value, seed=3)
    warp.lut_remap(src, by_table, warp.affine_lut(SOURCE, TARGET, 36, 28), border=1)
    warp.warp_affine(src, by_matrix, warp.affine_transform(SOURCE, TARGET), border=1)
    for first, second in zip(by_table.planes, by_matrix.planes, strict=True):
        assert np.abs(first.astype(float) - second).max() <= 2  # positions are rounded to 1/32 pixel


def test_odd_sizes_of_sub_sampled_pictures() -> None:
    src, out = picture(1, 35, 27), picture(1, 33, 21, seed=2)
    y, x = np.mgrid[0:21, 0:33].astype(np.float32)
    warp.lut_remap(src, out, warp.remap_lut(x, y), "nearest")
    np.testing.assert_array_equal(out.planes[0], src.planes[0][:21, :33])
    np.testing.assert_array_equal(out.planes[1][:10, :16], src.planes[1][:10, :16])
    warp.warp_affine(src, out, MATRIX)


def test_positions_that_are_no_numbers_are_outside() -> None:
    src, out = picture(1, 8, 8), picture(1, 8, 8, seed=2)
    for bad in (np.nan, np.inf, -np.inf, 1e30):
        table = np.full((8, 8, 2), bad, np.float32)
        warp.lut_remap(src, out, table, value=(9.0, 8.0, 7.0))
        assert (out.planes[0] == 9).all()
        assert (out.planes[1] == (8, 7)).all()
    warp.lut_remap(src, out, np.full((8, 8, 2), 1e30, np.float32), border=1)
    assert (out.planes[0] == src.planes[0][-1, -1]).all()


def test_tables_in_memory() -> None:
    table = warp.affine_lut(SOURCE, TARGET, 13, 7)
    assert warp.lut_size(13, 7) == 8 * 13 * 7
    memory = np.zeros(8 * 13 * 7 + 10, np.uint8)
    warp.write_lut(memory, table)
    np.testing.assert_array_equal(warp.read_lut(memory, 13, 7), table)
    assert not memory[-10:].any()
    skewed = np.zeros(memory.size + 1, np.uint8)[1:]
    warp.write_lut(skewed, table)
    np.testing.assert_array_equal(warp.read_lut(skewed, 13, 7), table)


def test_one_pixel() -> None:
    for value in (0, 1, 7, 12):
        src, out = picture(value, 1, 1), picture(value, 1, 1, seed=2)
        warp.warp_affine(src, out, np.array([[1, 0, 0], [0, 1, 0]], float), "nearest", 1)
        warp.lut_remap(src, out, np.zeros((1, 1, 2), np.float32), "nearest", 1)
        first = src.format.channels.index("r" if value == 12 else "y")
        assert out.planes[0].reshape(-1)[first] == src.planes[0].reshape(-1)[first]


def test_refusals() -> None:
    src, out = picture(12), picture(12, seed=2)
    nan, table = float("nan"), np.zeros((28, 36, 2), np.float32)
    calls = [
        lambda: warp.warp_affine(src, out, np.zeros((2, 3))),
        lambda: warp.warp_affine(src, out, np.array([[1, 2, 3], [2, 4, 1]], float)),
        lambda: warp.warp_affine(src, out, np.full((2, 3), nan)),
        lambda: warp.warp_affine(src, out, np.ones((3, 4))),
        lambda: warp.warp_affine(src, out, MATRIX, "cubic"),
        lambda: warp.warp_affine(src, out, MATRIX, "bilinear", 5),
        lambda: warp.warp_affine(src, out, MATRIX, "bilinear", 0, (nan,)),
        lambda: warp.warp_affine(src, picture(13), MATRIX),
        lambda: warp.warp_affine(Pixels(src.format, [], 36, 28), out, MATRIX),
        lambda: warp.lut_remap(src, out, table[:-1]),
        lambda: warp.affine_transform(SOURCE[:2], TARGET[:2]),
        lambda: warp.affine_transform([(0, 0), (1, 1), (2, 2)], TARGET),
        lambda: warp.affine_transform(SOURCE, [(0, 0), (1, nan), (2, 2)]),
        lambda: warp.affine_lut(SOURCE, [(0, 0), (1, 1), (2, 2)], 5, 5),
        lambda: warp.perspective_lut(CORNERS, [(0, 0), (1, 1), (2, 2), (3, 3)], 5, 5),
        lambda: warp.perspective_lut(CORNERS, [(0, 0), (1, 1), (2, 2), (9, 4)], 5, 5),
        lambda: warp.perspective_lut([(0, 0), (9, 4), (10, 10), (30, 30)], QUAD, 5, 5),
        lambda: warp.perspective_lut(CORNERS, QUAD, 0, 5),
        lambda: warp.perspective_lut(SOURCE, TARGET, 5, 5),
        lambda: warp.rotation_matrix((1, 2), nan, 1),
        lambda: warp.rotation_matrix((1,), 0, 1),
        lambda: warp.lut_size(0, 5),
        lambda: warp.lut_size(5, 1 << 20),
        lambda: warp.write_lut(np.zeros(100, np.uint8), table),
        lambda: warp.write_lut(np.zeros(10000, np.uint8), table[0]),
        lambda: warp.read_lut(np.zeros(100, np.uint8), 5, 5),
        lambda: warp.remap_lut(table[:, :, 0], table[:-1, :, 0]),
    ]
    for call in calls:
        with pytest.raises(NpuError) as caught:
            call()
        assert caught.value.code == codes.INVALID_PARAM
    grey = picture(137)
    with pytest.raises(NpuError) as caught:
        warp.warp_affine(grey, grey, MATRIX)
    assert caught.value.code == codes.API_NOT_SUPPORT


def test_what_is_too_wide_for_opencv_is_refused_in_words() -> None:
    form = pixel_format(0)
    src, out = Pixels(form, [np.zeros((1, 32768), np.uint8)], 32768, 1), Pixels.empty(form, 4, 1)
    with pytest.raises(NpuError, match="OpenCV refused"):
        warp.warp_affine(src, out, MATRIX)
