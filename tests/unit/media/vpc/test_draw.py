"""Drawing against numpy, and against pictures drawn by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels, Region
from softnpu.media.vpc import draw, osd
from softnpu.media.vpc.draw import Line, Mosaic, QuadCover, RectCover
from softnpu.media.vpc.osd import Osd

Array = np.ndarray[Any, Any]
RED, BLUE, WHITE = 0xFF0000, 0x0000FF, 0xFFFFFF
# floor(0.299 R + 0.587 G + 0.114 B) and so on, worked out by hand.
YUV = {RED: (76, 85, 255), BLUE: (29, 255, 107), WHITE: (255, 128, 128)}
RGB = {RED: (255, 0, 0), BLUE: (0, 0, 255), WHITE: (255, 255, 255)}
ORDER = {"y": 0, "r": 0, "u": 1, "g": 1, "v": 2, "b": 2}
ALL = [0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 14, 17, 55, 58, 69]


def picture(value: int, width: int = 40, height: int = 32, seed: int = 1) -> Pixels:
    pixels = Pixels.empty(pixel_format(value), width, height)
    random = np.random.default_rng(seed)
    for index, plane in enumerate(pixels.planes):
        wide = random.integers(0, 256, (plane.shape[0], plane.shape[1] + 5, *plane.shape[2:]), np.uint8)
        pixels.planes[index] = wide[:, : plane.shape[1]]
    return pixels


def channels(pixels: Pixels) -> dict[str, tuple[Array, int, int]]:
    """(values, x step, y step) of each channel, as a copy."""
    by_name = {}
    for spec, plane in zip(pixels.format.planes, pixels.planes, strict=True):
        if pixels.format.packed:
            luma = plane[:, :, spec.channels.index("y") :: 2].reshape(plane.shape[0], -1)[:, : pixels.width]
            by_name["y"] = (luma.copy(), 1, 1)
        for index, name in enumerate(spec.channels):
            if name not in by_name:
                values = plane if plane.ndim == 2 else plane[:, :, index]
                by_name[name] = (values.copy(), 2 if pixels.format.packed else spec.x, spec.y)
    return by_name


def colour_of(name: str, colour: int, pixels: Pixels) -> int:
    return (YUV if pixels.format.space == "yuv" else RGB)[colour][ORDER[name]]


def check_painted(before: Pixels, out: Pixels, mask: Array, colour: int) -> None:
    """Every channel is the colour where the mask is set; a chroma value takes the share of its pixels that are."""
    old, new = channels(before), channels(out)
    assert old.keys() == new.keys()
    for name, (values, step_x, step_y) in old.items():
        after = new[name][0]
        if name in "ax":
            np.testing.assert_array_equal(after, values)
            continue
        for y, x in np.ndindex(values.shape):
            share = mask[y * step_y : (y + 1) * step_y, x * step_x : (x + 1) * step_x].mean()
            wanted = values[y, x] * (1 - share) + colour_of(name, colour, out) * share
            assert abs(int(after[y, x]) - wanted) <= 0.5 + 1e-6, (name, x, y)


def rectangle(pixels: Pixels, left: int, top: int, right: int, bottom: int) -> Array:
    mask = np.zeros((pixels.height, pixels.width), bool)
    mask[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = True
    return mask


@pytest.mark.parametrize("value", ALL)
@pytest.mark.parametrize("region", [(4, 6, 10, 8), (5, 7, 9, 3), (-3, -4, 11, 9), (30, 20, 50, 50), (50, 50, 4, 4)])
def test_cover_with_a_rectangle(value: int, region: tuple[int, int, int, int]) -> None:
    before, out = picture(value), picture(value)
    draw.cover(out, [RectCover(Region(*region), RED)])
    left, top, width, height = region
    check_painted(before, out, rectangle(out, left, top, left + width, top + height), RED)


@pytest.mark.parametrize("value", [1, 3, 7, 12])
def test_odd_pictures(value: int) -> None:
    before, out = picture(value, 23, 17), picture(value, 23, 17)
    draw.cover(out, [RectCover(Region(16, 10, 7, 7), BLUE)])
    check_painted(before, out, rectangle(out, 16, 10, 23, 17), BLUE)
    before, out = picture(value, 1, 1), picture(value, 1, 1)
    draw.cover(out, [RectCover(Region(0, 0, 1, 1), BLUE)])
    check_painted(before, out, np.ones((1, 1), bool), BLUE)


def test_covers_follow_each_other_and_high_bits_do_not_matter() -> None:
    before, out = picture(12), picture(12)
    draw.cover(out, [RectCover(Region(0, 0, 40, 32), RED), RectCover(Region(0, 0, 40, 32), 0xAB000000 | BLUE)])
    check_painted(before, out, np.ones((32, 40), bool), BLUE)


@pytest.mark.parametrize("value", [0, 1, 7, 13])
def test_quadrilaterals_are_filled_with_their_corners(value: int) -> None:
    points = [(5, 3), (30, 8), (24, 27), (9, 20)]
    mask = np.zeros((32, 40), np.uint8)
    cv2.fillPoly(mask, [np.array(points)], 1)
    before, out = picture(value), picture(value)
    draw.cover(out, [QuadCover(points, BLUE)])
    check_painted(before, out, mask.astype(bool), BLUE)


def test_an_outlined_quadrilateral_is_empty_inside() -> None:
    out = Pixels(pixel_format(0), [np.zeros((32, 40), np.uint8)], 40, 32)
    draw.cover(out, [QuadCover([(4, 4), (34, 4), (34, 26), (4, 26)], WHITE, is_solid=False, thickness=2)])
    wanted = np.zeros((32, 40), np.uint8)
    wanted[4:6, 4:35] = wanted[26:28, 4:35] = wanted[4:27, 4:6] = wanted[4:27, 34:36] = 255
    np.testing.assert_array_equal(out.planes[0], wanted)


@pytest.mark.parametrize("value", [0, 1, 2, 3, 7, 12, 17])
@pytest.mark.parametrize(
    ("points", "thickness", "box"),
    [
        (((4, 10), (20, 10)), 2, (4, 10, 21, 12)),
        (((20, 10), (4, 10)), 4, (4, 8, 21, 12)),
        (((12, 4), (12, 20)), 6, (10, 4, 16, 21)),
        (((-10, 10), (60, 10)), 8, (0, 6, 40, 14)),
        (((4, 60), (20, 60)), 2, (0, 0, 0, 0)),
    ],
)
def test_straight_lines(value: int, points: Any, thickness: int, box: tuple[int, int, int, int]) -> None:
    before, out = picture(value), picture(value)
    draw.line(out, [Line(*points, thickness, RED)])
    check_painted(before, out, rectangle(out, *box), RED)


def test_slanted_lines_have_their_thickness_and_no_direction() -> None:
    first, second = (np.zeros((200, 200), np.uint8) for _ in range(2))
    form = pixel_format(0)
    draw.line(Pixels(form, [first], 200, 200), [Line((20, 30), (180, 150), 10, WHITE)])
    draw.line(Pixels(form, [second], 200, 200), [Line((180, 150), (20, 30), 10, WHITE)])
    np.testing.assert_array_equal(first, second)
    area = np.count_nonzero(first)
    assert abs(area / (200 * 10) - 1) < 0.06  # 160, 120, 200 is a right triangle
    y, x = np.nonzero(first)
    distance = np.abs((x - 20) * 120 - (y - 30) * 160) / 200
    assert distance.max() <= 6.5


@pytest.mark.parametrize("value", ALL)
@pytest.mark.parametrize("block", [8, 16, 32])
@pytest.mark.parametrize(
    "region", [(8, 4, 16, 16), (-5, -6, 30, 23), (20, 10, 100, 90), (60, 60, 8, 8), (-20, -11, 15, 9)]
)
def test_mosaic_blocks_are_their_mean(value: int, block: int, region: tuple[int, int, int, int]) -> None:
    before, out = picture(value), picture(value)
    draw.mosaic(out, [Mosaic(Region(*region), block)])
    left, top, width, height = region
    for name, (values, step_x, step_y) in channels(before).items():
        wanted = values.copy()
        rows, columns = values.shape
        for y in range(top // step_y, -(-(top + height) // step_y), block // step_y):
            for x in range(left // step_x, -(-(left + width) // step_x), block // step_x):
                ends = (-(-(top + height) // step_y), -(-(left + width) // step_x))
                down = slice(max(y, 0), max(min(y + block // step_y, ends[0], rows), 0))
                across = slice(max(x, 0), max(min(x + block // step_x, ends[1], columns), 0))
                part = values[down, across]
                if part.size:
                    wanted[down, across] = int(part.mean() + 0.5)
        np.testing.assert_array_equal(channels(out)[name][0], wanted, err_msg=name)


def over(background: Array, argb: Array) -> Array:
    """R, G, B of a picture laid over another."""
    alpha = argb[:, :, :1] / 255
    return background * (1 - alpha) + argb[:, :, 1:] * alpha


def random_argb(width: int = 12, height: int = 9) -> Array:
    return np.random.default_rng(8).integers(0, 256, (height, width, 4), np.uint8)


@pytest.mark.parametrize("inverted", range(4))
@pytest.mark.parametrize("corner", [(3, 5), (-4, -2), (33, 28)])
def test_osd_of_8888_over_rgb(inverted: int, corner: tuple[int, int]) -> None:
    before, out = picture(12), picture(12)
    argb = random_argb()
    data = np.zeros((9, 60), np.uint8)
    data[:, :48] = argb.reshape(9, 48)
    osd.osd(out, [Osd(Region(*corner, 12, 9), 14, data, inverted=inverted)])
    layer = argb.copy()
    if inverted in (1, 3):
        layer[:, :, 1:] = 255 - layer[:, :, 1:]
    if inverted in (2, 3):
        layer[:, :, 0] = 255 - layer[:, :, 0]
    wide = np.pad(before.planes[0].astype(float), ((20, 20), (20, 20), (0, 0)))
    x, y = corner[0] + 20, corner[1] + 20
    wide[y : y + 9, x : x + 12] = over(wide[y : y + 9, x : x + 12], layer)
    assert np.abs(out.planes[0] - wide[20:52, 20:60]).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("value", [13, 15, 16, 69, 0, 1, 2, 3, 5, 7, 11])
def test_osd_in_one_colour_is_a_cover(value: int) -> None:
    before, out = picture(value), picture(value)
    argb = np.zeros((9, 12, 4), np.uint8)
    argb[:] = (255, 0, 0, 255)
    osd.osd(out, [Osd(Region(5, 4, 12, 9), 14, argb.reshape(9, 48))])
    check_painted(before, out, rectangle(out, 5, 4, 17, 13), BLUE)


def test_osd_chroma_is_weighed_by_alpha() -> None:
    """One pixel of four is opaque red, one is half white: U = (85 * 1 + 128 * 0.5 + 0 * 2.5) / 4 over a U of 0."""
    out = Pixels(pixel_format(1), [np.zeros((2, 2), np.uint8), np.zeros((1, 1, 2), np.uint8)], 2, 2)
    argb = np.array([[[255, 255, 0, 0], [128, 255, 255, 255]], [[0, 9, 9, 9], [0, 9, 9, 9]]], np.uint8)
    osd.osd(out, [Osd(Region(0, 0, 2, 2), 14, argb.reshape(2, 8))])
    assert out.planes[0].tolist() == [[76, 128], [0, 0]]
    assert out.planes[1].tolist() == [[[round((85 + 128 * 128 / 255) / 4), round((255 + 128 * 128 / 255) / 4)]]]


@pytest.mark.parametrize(
    ("form", "pixel", "argb"),
    [
        (33, 0x8000 | 31 << 10, (200, 255, 0, 0)),
        (33, 31 << 5, (30, 0, 255, 0)),
        (33, 0x8000 | 16, (200, 0, 0, 132)),
        (25, 0xF00F, (255, 0, 0, 255)),
        (25, 0x8421, (136, 68, 34, 17)),
    ],
)
def test_osd_of_16_bits(form: int, pixel: int, argb: tuple[int, ...]) -> None:
    before, out = picture(12), picture(12)
    data = np.full((2, 2), pixel, "<u2").view(np.uint8)
    osd.osd(out, [Osd(Region(2, 3, 2, 2), form, data, bg_alpha=30, fg_alpha=200)])
    expected = before.planes[0].astype(float)
    layer = np.broadcast_to(np.array(argb, float), (2, 2, 4))
    expected[3:5, 2:4] = over(expected[3:5, 2:4], layer)
    assert np.abs(out.planes[0] - expected).max() <= 0.5 + 1e-6


@pytest.mark.parametrize(("form", "data"), [(41, [0b11_10_01_00, 0b00_01_10_11]), (42, [0x10, 0x32, 0x23, 0x01])])
def test_osd_with_a_colour_table(form: int, data: list[int]) -> None:
    clut = [0xFF0A0B0C, 0xFF1A1B1C, 0x00FFFFFF, 0xFF3A3B3C, *[0] * 12]
    out = Pixels(pixel_format(12), [np.full((1, 8, 3), 7, np.uint8)], 8, 1)
    osd.osd(out, [Osd(Region(0, 0, 8, 1), form, np.array([data], np.uint8))], clut)
    reds = [0x0A, 0x1A, 7, 0x3A]
    assert out.planes[0][0, :, 0].tolist() == [reds[i] for i in (0, 1, 2, 3, 3, 2, 1, 0)]


def test_osd_read_from_the_picture_itself() -> None:
    memory = np.random.default_rng(1).integers(0, 256, (8, 64), np.uint8)
    copy = memory.copy()
    form = pixel_format(12)
    expected = Pixels(form, [copy[:, :60].copy().reshape(8, 20, 3)], 20, 8)
    osd.osd(expected, [Osd(Region(0, 0, 15, 8), 14, copy[:, :60].copy())])
    out = Pixels(form, [np.ndarray((8, 20, 3), np.uint8, memory, 0, (64, 3, 1))], 20, 8)
    osd.osd(out, [Osd(Region(0, 0, 15, 8), 14, memory[:, :60])])
    np.testing.assert_array_equal(out.planes[0], expected.planes[0])


def refused(call: Callable[[], None]) -> int:
    with pytest.raises(NpuError) as caught:
        call()
    assert caught.value.text
    assert caught.value.remedy
    return caught.value.code


def test_refusals() -> None:
    out = picture(1)
    box, data = Region(0, 0, 8, 8), np.zeros((8, 32), np.uint8)
    square = [(0, 0), (9, 0), (9, 9), (0, 9)]
    calls: list[Callable[[], None]] = [
        lambda: draw.cover(out, []),
        lambda: draw.cover(out, [RectCover(box, RED)] * 101),
        lambda: draw.cover(out, [RectCover(Region(0, 0, 0, 8), RED)]),
        lambda: draw.cover(out, [QuadCover(square[:3], RED)]),
        lambda: draw.cover(out, [QuadCover([*square[:3], (1 << 31, 0)], RED)]),
        lambda: draw.cover(out, [QuadCover(square, RED, is_solid=False, thickness=3)]),
        lambda: draw.line(out, [Line((1, 1), (1, 1), 2, RED)]),
        lambda: draw.line(out, [Line((1, 1), (5, 1), 0, RED)]),
        lambda: draw.line(out, [Line((1, 1), (5, 1), 1, RED)]),
        lambda: draw.line(out, [Line((1, 1), (5, 1), 1 << 30, RED)]),
        lambda: draw.line(out, [Line((1, 1), (-(1 << 31), 1), 2, RED)]),
        lambda: draw.mosaic(out, [Mosaic(box, 4)]),
        lambda: draw.mosaic(out, [Mosaic(Region(0, 0, 7, 8), 8)]),
        lambda: osd.osd(out, [Osd(box, 14, data[:7])]),
        lambda: osd.osd(out, [Osd(box, 14, data[:, :31])]),
        lambda: osd.osd(out, [Osd(box, 14, data.astype(np.int32))]),
        lambda: osd.osd(out, [Osd(box, 14, data, inverted=4)]),
        lambda: osd.osd(out, [Osd(box, 33, data, bg_alpha=256)]),
        lambda: osd.osd(out, [Osd(box, 42, data)], [0] * 15),
        lambda: osd.osd(out, [Osd(Region(0, 0, 0, 0), 14, data)]),
        lambda: draw.cover(Pixels(out.format, out.planes[:1], 40, 32), [RectCover(box, RED)]),
    ]
    for call in calls:
        assert refused(call) == codes.INVALID_PARAM
    assert refused(lambda: osd.osd(out, [Osd(box, 12, data)])) == codes.API_NOT_SUPPORT
    grey = Pixels.empty(pixel_format(138), 8, 8)
    assert refused(lambda: draw.cover(grey, [RectCover(box, RED)])) == codes.API_NOT_SUPPORT


def test_a_wrong_item_leaves_the_picture_as_it_was() -> None:
    before, out = picture(12), picture(12)
    box, data = Region(0, 0, 8, 8), np.zeros((8, 32), np.uint8)
    refused(lambda: draw.line(out, [Line((1, 1), (9, 1), 2, RED), Line((1, 1), (9, 1), 3, RED)]))
    refused(lambda: osd.osd(out, [Osd(box, 14, data + 255), Osd(box, 41, data)], [0] * 4))
    np.testing.assert_array_equal(out.planes[0], before.planes[0])


def test_enormous_regions_take_no_time() -> None:
    out = picture(1)
    far = Region(-(1 << 31), -(1 << 31), (1 << 32) - 1, (1 << 32) - 1)
    draw.mosaic(out, [Mosaic(far, 8)])
    draw.cover(out, [RectCover(far, RED), QuadCover([(-65536, -65536), (65536, 0), (0, 65536), (-65536, 0)], RED)])
    draw.line(out, [Line((-65536, -65535), (65536, 65535), 32, RED)])
    assert out.planes[0][5, 5] == 76
