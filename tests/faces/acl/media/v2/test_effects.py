"""acl.himpi: filters, flips, rotations, drawing, warps. Numbers are OpenCV's and NumPy's."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

import acl
from tests.faces.acl.media.v2.support import (
    ARGB,
    FOREVER,
    GRAY,
    ILLEGAL_PARAM,
    NOT_SUPPORT,
    NULL_PTR,
    NV12,
    NV16,
    RGB,
    VPC,
    Array,
    done,
    fetch,
    noise,
    pic,
    planes,
    put,
    smooth,
)
from tests.support import message, ok

CENTRE = {"x": -1, "y": -1}
EDGES = [cv2.BORDER_CONSTANT, cv2.BORDER_REPLICATE]
VALUE = {"val": [11.0, 22.0, 33.0, 0.0]}
WRONG = (0, VPC | ILLEGAL_PARAM)


def framed(data: Array, around: int, kind: int) -> Array:
    """The picture continued at its edges."""
    return cv2.copyMakeBorder(data, around, around, around, around, EDGES[kind], value=(11, 22, 33))


def inner(data: Array, around: int) -> Array:
    return data[around:-around, around:-around]


def near(first: Array, second: Array, most: int = 1) -> None:
    """Equal but for rounding."""
    assert first.shape == second.shape
    assert np.abs(first.astype(int) - second.astype(int)).max() <= most


def blur_param(src: dict[str, Any], dst: dict[str, Any], size: int = 3, **more: Any) -> dict[str, Any]:
    config = {"kernel_size": {"width": size, "height": size}, "anchor": CENTRE, "iterations": 1, "scalar_value": VALUE}
    return {"src": src, "dst": dst, "blur_cfg": {**config, "morph_shapes": 0, "border_type": 0, **more}}


# ---- filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("size", [3, 5])
def test_a_blur_is_that_of_opencv(chn: int, size: int, kind: int) -> None:
    data = noise(40, 50, 3)
    src, out = pic(RGB, 50, 40, data), pic(RGB, 50, 40)
    done(chn, acl.himpi.vpc_blur(chn, blur_param(src, out, size, border_type=kind), FOREVER))
    near(planes(out)[0], inner(cv2.blur(framed(data, 4, kind), (size, size)), 4))


@pytest.mark.parametrize("name", ["erode", "dilate"])
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("iterations", [1, 3])
def test_erosion_and_dilation_are_those_of_opencv(chn: int, name: str, kind: int, iterations: int) -> None:
    data = noise(40, 50, 3)
    src, out = pic(RGB, 50, 40, data), pic(RGB, 50, 40)
    param = blur_param(src, out, 3, border_type=kind, iterations=iterations)
    done(chn, getattr(acl.himpi, f"vpc_{name}")(chn, param, FOREVER))
    want = data
    for _ in range(iterations):
        want = inner(getattr(cv2, name)(framed(want, 2, kind), np.ones((3, 3), np.uint8)), 2)
    assert (planes(out)[0] == want).all()


def test_chroma_is_filtered_in_its_own_resolution(chn: int) -> None:
    luma, chroma = noise(40, 50), noise(20, 25, 2, seed=1)
    src, out = pic(NV12, 50, 40, np.concatenate([luma.ravel(), chroma.ravel()])), pic(NV12, 50, 40)
    done(chn, acl.himpi.vpc_dilate(chn, blur_param(src, out, 3, border_type=1), FOREVER))
    kernel = np.ones((3, 3), np.uint8)
    assert (planes(out)[0] == cv2.dilate(luma, kernel, borderType=cv2.BORDER_REPLICATE)).all()
    assert (planes(out)[1] == cv2.dilate(chroma, kernel, borderType=cv2.BORDER_REPLICATE)).all()


@pytest.mark.parametrize("kind", [0, 1])
def test_a_gaussian_blur_is_that_of_opencv(chn: int, kind: int) -> None:
    data = noise(40, 50)
    src, out = pic(GRAY, 50, 40, data), pic(GRAY, 50, 40)
    config = {"kernel_size": {"width": 5, "height": 3}, "sigma_x": 1.2, "sigma_y": 0.8, "border_type": kind}
    config.update(scalar_value=VALUE, reserved=[0, 0])
    param = {"src": src, "dst": out, "gaussian_blur_cfg": config}
    done(chn, acl.himpi.vpc_gaussian_blur(chn, param, FOREVER))
    near(planes(out)[0], inner(cv2.GaussianBlur(framed(data, 4, kind), (5, 3), 1.2, sigmaY=0.8), 4))
    del config["reserved"]
    with pytest.raises(TypeError):
        acl.himpi.vpc_gaussian_blur(chn, param, 0)


def test_a_median_is_that_of_opencv(chn: int) -> None:
    data = noise(40, 50, 3)
    src, out = pic(RGB, 50, 40, data), pic(RGB, 50, 40)
    param = {"src": src, "dst": out, "median_blur_cfg": {"kernel_size": 5}}
    done(chn, acl.himpi.vpc_median_blur(chn, param, FOREVER))
    assert (planes(out)[0] == cv2.medianBlur(data, 5)).all()


def filter_param(src: dict[str, Any], dst: dict[str, Any], kernel: Any, **more: Any) -> dict[str, Any]:
    size = {"width": 3, "height": 3}
    config = {"kernel_size": size, "filter": kernel, "anchor": CENTRE, "border_type": 1, "scalar_value": VALUE}
    return {"src": src, "dst": dst, "filter_2d_cfg": {**config, **more}}


def test_a_filter_is_the_sum_over_its_kernel(chn: int) -> None:
    data = noise(40, 50)
    src, out = pic(GRAY, 50, 40, data), pic(GRAY, 50, 40)
    kernel = [[0.0, -1.0, 0.0], [-1.0, 5.0, -1.0], [0.0, -1.0, 0.25]]
    done(chn, acl.himpi.vpc_filter2d(chn, filter_param(src, out, kernel, delta=3.0), FOREVER))
    wide = np.pad(data.astype(float), 1, mode="edge")
    want = sum(kernel[i][j] * wide[i : i + 40, j : j + 50] for i in range(3) for j in range(3)) + 3
    near(planes(out)[0], np.rint(np.clip(want, 0, 255)).astype(np.uint8))


@pytest.mark.parametrize(
    "kernel", [None, 5, [1.0] * 9, [[1] * 3] * 3, [[1.0] * 3] * 2, [[1.0] * 2] * 3, [["a"] * 3] * 3, ((1.0,) * 3,) * 3]
)
def test_kernels_of_another_kind(chn: int, kernel: Any) -> None:
    with pytest.raises(TypeError):
        acl.himpi.vpc_filter2d(chn, filter_param(pic(GRAY, 50, 40), pic(GRAY, 50, 40), kernel), 0)


def test_values_that_are_no_numbers(chn: int) -> None:
    src, out = pic(GRAY, 50, 40), pic(GRAY, 50, 40)
    bad = [[float("nan")] * 3] * 3
    assert acl.himpi.vpc_filter2d(chn, filter_param(src, out, bad), 0) == WRONG
    assert acl.himpi.vpc_blur(chn, blur_param(src, out, scalar_value={"val": [float("inf")]}), 0) == WRONG


@pytest.mark.parametrize(
    "change",
    [
        {"kernel_size": {"width": 2, "height": 3}},
        {"kernel_size": {"width": 7, "height": 7}},
        {"kernel_size": {}},
        {"border_type": 9},
        {"anchor": {"x": 1, "y": 1}},
        {"iterations": 101},
    ],
)
def test_sizes_of_filters_are_limited(chn: int, change: dict[str, Any]) -> None:
    src, out = pic(GRAY, 50, 40), pic(GRAY, 50, 40)
    for name in ("blur", "erode", "dilate"):
        assert getattr(acl.himpi, f"vpc_{name}")(chn, blur_param(src, out, **change), 0) == WRONG
        assert message()


def test_iterations_shapes_and_formats_of_filters_are_limited(chn: int) -> None:
    src, out = pic(GRAY, 50, 40), pic(GRAY, 50, 40)
    assert acl.himpi.vpc_blur(chn, blur_param(src, out, iterations=2), 0) == WRONG
    assert acl.himpi.vpc_erode(chn, blur_param(src, out, iterations=0), 0) == WRONG
    assert acl.himpi.vpc_erode(chn, blur_param(src, out, morph_shapes=1), 0) == WRONG
    assert acl.himpi.vpc_erode(chn, blur_param(src, pic(GRAY, 40, 40)), 0) == WRONG
    assert acl.himpi.vpc_erode(chn, blur_param(src, pic(RGB, 50, 40)), 0) == WRONG
    assert acl.himpi.vpc_median_blur(chn, {"src": src, "dst": out, "median_blur_cfg": {"kernel_size": 4}}, 0) == WRONG
    assert acl.himpi.vpc_median_blur(chn, {}, 0) == (0, VPC | NULL_PTR)


# ---- turns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "code"), [(0, 1), (1, 0), (2, -1)])
def test_a_flip_is_that_of_opencv(chn: int, mode: int, code: int) -> None:
    luma, chroma = noise(40, 50), noise(20, 25, 2, seed=1)
    src, out = pic(NV12, 50, 40, np.concatenate([luma.ravel(), chroma.ravel()])), pic(NV12, 50, 40)
    done(chn, acl.himpi.vpc_flip(chn, {"src": src, "dst": out, "flip_mode": mode}, FOREVER))
    assert (planes(out)[0] == cv2.flip(luma, code)).all()
    assert (planes(out)[1] == cv2.flip(chroma, code)).all()


@pytest.mark.parametrize("angle", [0, 1, 2])
def test_a_rotation_is_clockwise(chn: int, angle: int) -> None:
    """Clockwise, as in OpenCV."""
    data = noise(40, 50, 3)
    size = (50, 40) if angle == 1 else (40, 50)
    src, out = pic(RGB, 50, 40, data), pic(RGB, *size)
    done(chn, acl.himpi.vpc_rotate(chn, {"src": src, "dst": out, "angle": angle}, FOREVER))
    codes = [cv2.ROTATE_90_CLOCKWISE, cv2.ROTATE_180, cv2.ROTATE_90_COUNTERCLOCKWISE]
    assert (planes(out)[0] == cv2.rotate(data, codes[angle])).all()


def test_turns_that_do_not_fit(chn: int) -> None:
    src = pic(RGB, 50, 40)
    assert acl.himpi.vpc_flip(chn, {"src": src, "dst": pic(RGB, 50, 40), "flip_mode": 3}, 0) == WRONG
    assert acl.himpi.vpc_flip(chn, {"src": src, "dst": pic(RGB, 40, 50), "flip_mode": 0}, 0) == WRONG
    assert acl.himpi.vpc_rotate(chn, {"src": src, "dst": pic(RGB, 50, 40), "angle": 0}, 0) == WRONG
    assert acl.himpi.vpc_rotate(chn, {"src": src, "dst": pic(RGB, 40, 50), "angle": 3}, 0) == WRONG
    assert acl.himpi.vpc_rotate(chn, {"src": src, "dst": pic(ARGB, 40, 50), "angle": 0}, 0) == WRONG


# ---- drawing ---------------------------------------------------------------------------------------------------------


def rect(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "width": width, "height": height}


def test_a_cover_may_be_drawn_in_place(chn: int) -> None:
    data = noise(40, 50, 3)
    src = pic(RGB, 50, 40, data)
    covers = [
        {"type": 0, "color": 0x0A141E, "rect": rect(10, 4, 20, 8)},
        {"type": 0, "color": 0xFFFFFF, "rect": rect(45, 35, 20, 20)},
    ]
    done(chn, acl.himpi.vpc_draw_cover(chn, {"src": src, "dst": src, "count": 2, "cover": covers}, FOREVER))
    want = data.copy()
    want[4:12, 10:30] = (10, 20, 30)
    want[35:, 45:] = 255
    assert (planes(src)[0] == want).all()


def test_cover_of_four_points(chn: int) -> None:
    data = noise(40, 50, 3)
    src, out = pic(RGB, 50, 40, data), pic(RGB, 50, 40)
    points = [{"x": 10, "y": 10}, {"x": 29, "y": 10}, {"x": 29, "y": 19}, {"x": 10, "y": 19}]
    covers = [{"type": 1, "color": 0xFF0000, "quad": {"is_solid": 1, "thick": 0, "point": points}}]
    done(chn, acl.himpi.vpc_draw_cover(chn, {"src": src, "dst": out, "count": 1, "cover": covers}, FOREVER))
    want = data.copy()
    want[10:20, 10:30] = (255, 0, 0)
    assert (planes(out)[0] == want).all()
    assert (planes(src)[0] == data).all()


def test_a_mosaic_has_one_colour_in_each_block(chn: int) -> None:
    data = noise(48, 64)
    src, out = pic(GRAY, 64, 48, data), pic(GRAY, 64, 48)
    items = [{"blk_size": 1, "rect": rect(8, 8, 16, 24)}]
    done(chn, acl.himpi.vpc_draw_mosaic(chn, {"src": src, "dst": out, "count": 1, "mosaic": items}, FOREVER))
    drawn = planes(out)[0]
    for top in (8, 16, 24):
        for left in (8, 16):
            block = drawn[top : top + 8, left : left + 8]
            assert (block == block[0, 0]).all()
            assert abs(int(block[0, 0]) - data[top : top + 8, left : left + 8].mean()) <= 1
    outside = np.ones((48, 64), bool)
    outside[8:32, 8:24] = False
    assert (drawn[outside] == data[outside]).all()


def test_a_line_is_as_thick_as_asked(chn: int) -> None:
    src, out = pic(RGB, 64, 48, np.zeros((48, 64, 3), np.uint8)), pic(RGB, 64, 48)
    items = [{"start_point": {"x": 10, "y": 20}, "end_point": {"x": 40, "y": 20}, "thick": 2, "color": 0x00FF00}]
    done(chn, acl.himpi.vpc_draw_line(chn, {"src": src, "dst": out, "count": 1, "line": items}, FOREVER))
    drawn = planes(out)[0]
    rows, columns = np.nonzero(drawn[:, :, 1])
    assert sorted(set(rows.tolist())) == [20, 21]
    assert (columns.min(), columns.max()) == (10, 40)
    assert not drawn[:, :, (0, 2)].any()


def osd(address: int, form: int, stride: int, **more: int) -> dict[str, Any]:
    place = {"rect": rect(8, 4, 16, 8), "pixel_format": form, "picture_address": address, "stride": stride}
    return {**place, "bg_alpha": 0, "fg_alpha": 255, "osd_inverted_color": 0, **more}


def test_an_overlay_is_mixed_by_its_alpha(chn: int) -> None:
    data = noise(40, 50, 3)
    src, out = pic(RGB, 50, 40, data), pic(RGB, 50, 40)
    layer = noise(8, 16, 4, seed=3)
    layer[:, :, 0] = (0, 255) * 8  # alpha first
    param = {"src": src, "dst": out, "count": 1, "osd": [osd(put(layer), ARGB, 64)], "clut": [0] * 16}
    done(chn, acl.himpi.vpc_draw_osd(chn, param, FOREVER))
    want = data.copy()
    want[4:12, 9:24:2] = layer[:, 1::2, 1:]
    assert (planes(out)[0] == want).all()


def test_overlay_with_a_table(chn: int) -> None:
    src, out = pic(RGB, 50, 40, np.zeros((40, 50, 3), np.uint8)), pic(RGB, 50, 40)
    layer = np.full((8, 8), 0x55, np.uint8)  # two pixels in a byte, all of colour 5
    clut = [0] * 16
    clut[5] = 0xFF102030
    param = {"src": src, "dst": out, "count": 1, "osd": [osd(put(layer), 42, 8)], "clut": clut}
    done(chn, acl.himpi.vpc_draw_osd(chn, param, FOREVER))
    drawn = planes(out)[0]
    assert (drawn[4:12, 8:24] == (0x10, 0x20, 0x30)).all()
    assert not drawn[:4].any() and not drawn[:, 24:].any()


def test_wrong_values_of_drawings_are_refused(chn: int) -> None:
    src, out = pic(RGB, 50, 40), pic(RGB, 50, 40)
    pair = {"src": src, "dst": out}
    himpi = acl.himpi
    line = {"start_point": {"x": 2, "y": 2}, "end_point": {"x": 8, "y": 2}, "thick": 2, "color": 0}
    assert himpi.vpc_draw_line(chn, {**pair, "count": 1, "line": [{**line, "thick": 3}]}, 0) == WRONG
    assert himpi.vpc_draw_line(chn, {**pair, "count": 1, "line": [{**line, "end_point": {"x": 2, "y": 2}}]}, 0) == WRONG
    assert (
        himpi.vpc_draw_mosaic(chn, {**pair, "count": 1, "mosaic": [{"blk_size": 0, "rect": rect(0, 0, 8, 8)}]}, 0)
        == WRONG
    )
    assert (
        himpi.vpc_draw_mosaic(chn, {**pair, "count": 1, "mosaic": [{"blk_size": 1, "rect": rect(0, 0, 4, 8)}]}, 0)
        == WRONG
    )
    assert himpi.vpc_draw_cover(chn, {**pair, "count": 1, "cover": [{"type": 2}]}, 0) == WRONG
    assert himpi.vpc_draw_cover(chn, {**pair, "count": 1, "cover": [{"type": 1}]}, 0) == WRONG
    overlay = {**pair, "count": 1, "clut": [0] * 16}
    assert himpi.vpc_draw_osd(chn, {**overlay, "osd": [osd(0, ARGB, 64)]}, 0) == (0, VPC | NULL_PTR)
    assert himpi.vpc_draw_osd(chn, {**overlay, "osd": [osd(put(noise(8, 64)), RGB, 64)]}, 0) == (0, VPC | NOT_SUPPORT)
    assert himpi.vpc_draw_osd(chn, {**overlay, "osd": [osd(put(noise(8, 64)), ARGB, 63)]}, 0) == WRONG
    assert himpi.vpc_draw_osd(chn, {**overlay, "osd": [osd(put(noise(8, 8)), ARGB, 64)]}, 0) == WRONG
    assert himpi.vpc_draw_osd(chn, {**overlay, "osd": [osd(put(noise(8, 64)), ARGB, 64, fg_alpha=300)]}, 0) == WRONG
    assert himpi.vpc_draw_line(chn, {"src": src, "dst": pic(GRAY, 50, 40), "count": 1, "line": [line]}, 0) == WRONG


@pytest.mark.parametrize(("name", "key"), [("cover", "cover"), ("line", "line"), ("mosaic", "mosaic"), ("osd", "osd")])
def test_counts_of_drawings_are_checked(chn: int, name: str, key: str) -> None:
    call = getattr(acl.himpi, f"vpc_draw_{name}")
    base = {"src": pic(RGB, 50, 40), "dst": pic(RGB, 50, 40), "clut": [0] * 16}
    for count, items in ((0, []), (2, [{}]), (1, []), (1, None)):
        with pytest.raises(TypeError):
            call(chn, {**base, "count": count, key: items}, 0)
    with pytest.raises(ValueError, match="100"):
        call(chn, {**base, "count": 101, key: [{}] * 101}, 0)


# ---- warps -----------------------------------------------------------------------------------------------------------


def pairs(source: list[tuple[float, float]], target: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "src_point_count": len(source),
        "dest_point_count": len(target),
        "src_point": [{"x": x, "y": y} for x, y in source],
        "dest_point": [{"x": x, "y": y} for x, y in target],
    }


THREE = [(0.0, 0.0), (49.0, 0.0), (0.0, 39.0)], [(5.0, 3.0), (45.0, 8.0), (2.0, 36.0)]
FOUR = [*THREE[0], (49.0, 39.0)], [*THREE[1], (40.0, 30.0)]


def transform(src: dict[str, Any], dst: dict[str, Any], way: int = 0, kind: int = 0) -> dict[str, Any]:
    config = {"interpolation": way, "border_type": kind, "scalar_value": VALUE}
    return {"src": src, "dst": dst, "transform_config": config}


def test_matrices_are_those_of_opencv() -> None:
    transform_matrix, ret = acl.himpi.vpc_get_affine_transform(pairs(*THREE))
    assert ret == 0 and transform_matrix["matrix_type"] == 0
    cells = np.array(transform_matrix["matrix"])
    assert cells.shape == (3, 4)
    assert np.allclose(cells[:2, :3], cv2.getAffineTransform(np.float32(THREE[0]), np.float32(THREE[1])))
    transform_matrix, ret = acl.himpi.vpc_get_rotation_matrix({"x": 25.0, "y": 20}, 30.0, 1.5)
    assert ret == 0
    assert np.allclose(np.array(transform_matrix["matrix"])[:2, :3], cv2.getRotationMatrix2D((25.0, 20.0), 30.0, 1.5))


def test_matrices_that_do_not_exist() -> None:
    zeros = {"matrix_type": 0, "matrix": [[0.0] * 4] * 3}
    line = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]
    assert acl.himpi.vpc_get_affine_transform(pairs(line, THREE[1])) == (zeros, VPC | ILLEGAL_PARAM)
    assert acl.himpi.vpc_get_affine_transform(pairs(THREE[0][:2], THREE[1][:2])) == (zeros, VPC | ILLEGAL_PARAM)
    assert acl.himpi.vpc_get_rotation_matrix({"x": 0.0}, float("nan"), 1.0) == (zeros, VPC | ILLEGAL_PARAM)
    for points in ({**pairs(*THREE), "src_point_count": 2}, {"src_point": 5}, {**pairs(*THREE), "dest_point": None}):
        with pytest.raises(TypeError):
            acl.himpi.vpc_get_affine_transform(points)


@pytest.mark.parametrize(("way", "flag"), [(0, cv2.INTER_LINEAR), (1, cv2.INTER_NEAREST)])
def test_a_warp_is_that_of_opencv(chn: int, way: int, flag: int) -> None:
    data = smooth(40, 50, 3)
    src, out = pic(RGB, 50, 40, data), pic(RGB, 60, 44)
    matrix = ok(acl.himpi.vpc_get_affine_transform(pairs(*THREE)))
    done(chn, acl.himpi.vpc_warp_affine(chn, matrix, transform(src, out, way), FOREVER))
    move = cv2.getAffineTransform(np.float32(THREE[0]), np.float32(THREE[1]))
    want = cv2.warpAffine(data, move, (60, 44), flags=flag, borderValue=(11, 22, 33))
    assert (planes(out)[0] == want).all()


def test_wrong_matrices_of_warps_are_refused(chn: int) -> None:
    src, out = pic(RGB, 50, 40), pic(RGB, 50, 40)
    good = ok(acl.himpi.vpc_get_rotation_matrix({"x": 25.0, "y": 20.0}, 30.0, 1.5))
    warp = acl.himpi.vpc_warp_affine
    assert warp(chn, {"matrix_type": 2, "matrix": good["matrix"]}, transform(src, out), 0) == WRONG
    assert warp(chn, {"matrix_type": 0, "matrix": [[0.0] * 4] * 3}, transform(src, out), 0) == WRONG
    assert warp(chn, {"matrix_type": 0, "matrix": [[float("nan")] * 4] * 3}, transform(src, out), 0) == WRONG
    assert warp(chn, good, transform(src, out, way=4), 0) == WRONG
    assert warp(chn, good, transform(src, out, kind=7), 0) == WRONG
    assert warp(chn, good, transform(src, pic(GRAY, 50, 40)), 0) == WRONG
    for matrix in (None, [[0.0] * 3] * 3, [[0] * 4] * 3, [[0.0] * 4] * 2):
        with pytest.raises(TypeError):
            warp(chn, {"matrix_type": 0, "matrix": matrix}, transform(src, out), 0)


def table(width: int = 50, height: int = 40, out: tuple[int, int] = (60, 44)) -> dict[str, Any]:
    size = ok(acl.himpi.vpc_get_lut_mem_size(*out))
    sizes = {"src_pic_width": width, "src_pic_height": height, "dest_pic_width": out[0], "dest_pic_height": out[1]}
    return {**sizes, "lut": ok(acl.himpi.dvpp_malloc(0, size)), "lut_size": size, "reserved": 0}


def origins(move: Array, width: int, height: int) -> tuple[Array, Array]:
    """Where each output pixel comes from."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    back = np.linalg.inv(move) @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    flat = (back[:2] / back[2]).astype(np.float32)
    return flat[0].reshape(height, width), flat[1].reshape(height, width)


def test_remap_by_an_affine_table(chn: int) -> None:
    data = smooth(40, 50, 3)
    src, out, lut = pic(RGB, 50, 40, data), pic(RGB, 60, 44), table()
    assert acl.himpi.vpc_get_affine_lut(pairs(*THREE), 0, lut) == (lut, 0)
    done(chn, acl.himpi.vpc_lut_remap(chn, transform(src, out), lut, FOREVER))
    move = np.vstack([cv2.getAffineTransform(np.float32(THREE[0]), np.float32(THREE[1])), [0, 0, 1]])
    want = cv2.remap(data, *origins(move, 60, 44), cv2.INTER_LINEAR, borderValue=(11, 22, 33))
    near(planes(out)[0], want)


def test_remap_by_a_perspective_table(chn: int) -> None:
    data = smooth(40, 50)
    src, out, lut = pic(GRAY, 50, 40, data), pic(GRAY, 60, 44), table()
    assert acl.himpi.vpc_get_perspective_lut(pairs(*FOUR), 0, lut) == (lut, 0)
    done(chn, acl.himpi.vpc_lut_remap(chn, transform(src, out, kind=1), lut, FOREVER))
    move = cv2.getPerspectiveTransform(np.float32(FOUR[0]), np.float32(FOUR[1]))
    want = cv2.remap(data, *origins(move, 60, 44), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    near(planes(out)[0], want)


def test_remap_by_own_maps(chn: int) -> None:
    data = smooth(40, 50)
    src, out, lut = pic(GRAY, 50, 40, data), pic(GRAY, 60, 44), table()
    x, y = np.meshgrid(np.linspace(0, 49, 60, dtype=np.float32), np.linspace(39, 0, 44, dtype=np.float32))
    maps = {"map1": put(x), "map2": put(y), "map_size": x.nbytes, "dest_pic_width": 60, "dest_pic_height": 44}
    assert acl.himpi.vpc_get_remap_lut(maps, lut) == (lut, 0) == acl.himpi.vpc_get_remap_lut(maps, 0, lut)
    done(chn, acl.himpi.vpc_lut_remap(chn, transform(src, out), lut, FOREVER))
    assert (planes(out)[0] == cv2.remap(data, x, y, cv2.INTER_LINEAR)).all()
    assert acl.himpi.vpc_get_remap_lut({**maps, "map1": 0}, 0, lut) == (lut, VPC | NULL_PTR)
    assert acl.himpi.vpc_get_remap_lut({**maps, "map_size": 4}, 0, lut) == (lut, VPC | ILLEGAL_PARAM)
    assert acl.himpi.vpc_get_remap_lut({**maps, "dest_pic_width": 10}, 0, lut) == (lut, VPC | ILLEGAL_PARAM)


def test_wrong_tables_of_warps_are_refused(chn: int) -> None:
    src, out, lut = pic(GRAY, 50, 40), pic(GRAY, 60, 44), table()
    wrong = VPC | ILLEGAL_PARAM
    assert acl.himpi.vpc_get_lut_mem_size(0, 10) == (0, wrong)
    assert acl.himpi.vpc_get_lut_mem_size(1 << 20, 1 << 20) == (0, wrong)
    empty = {**lut, "lut": 0}
    assert acl.himpi.vpc_get_affine_lut(pairs(*THREE), 0, empty) == (empty, VPC | NULL_PTR)
    short = {**lut, "lut_size": 10}
    assert acl.himpi.vpc_get_affine_lut(pairs(*THREE), 0, short) == (short, wrong)
    large = {**lut, "dest_pic_width": 600, "lut_size": 1 << 30}
    assert acl.himpi.vpc_get_affine_lut(pairs(*THREE), 0, large) == (large, wrong)
    assert acl.himpi.vpc_get_affine_lut(pairs(*THREE), 9, lut) == (lut, wrong)
    assert acl.himpi.vpc_get_perspective_lut(pairs(*THREE), 0, lut) == (lut, wrong)
    assert acl.himpi.vpc_lut_remap(chn, transform(src, pic(GRAY, 50, 44)), lut, 0) == WRONG
    assert acl.himpi.vpc_lut_remap(chn, transform(src, out), {**lut, "src_pic_width": 51}, 0) == WRONG
    assert acl.himpi.vpc_lut_remap(chn, transform(src, out), empty, 0) == (0, VPC | NULL_PTR)


def test_garbage_in_a_table(chn: int) -> None:
    """Whatever lies in the memory of a table, only pixels of the destination are written."""
    data, lut = noise(40, 50), table()
    ok(acl.himpi.dvpp_free(lut["lut"]))
    lut["lut"] = put(noise(lut["lut_size"], seed=9))
    src, out = pic(GRAY, 50, 40, data), pic(GRAY, 60, 44, stride=64)
    done(chn, acl.himpi.vpc_lut_remap(chn, transform(src, out), lut, FOREVER))
    rows = fetch(out["picture_address"], out["picture_buffer_size"]).reshape(44, 64)
    assert (rows[:, 60:] == 0xEE).all()


def test_formats_without_arithmetic_are_moved_and_not_drawn_on(chn: int) -> None:
    src, out = pic(NV16, 50, 40), pic(NV16, 50, 40)
    for picture_info in (src, out):
        picture_info.update(picture_format=130, picture_width=20, picture_height=20)  # words of 16 bits
    done(chn, acl.himpi.vpc_flip(chn, {"src": src, "dst": out, "flip_mode": 0}, FOREVER))
    line = {"start_point": {"x": 2, "y": 2}, "end_point": {"x": 8, "y": 2}, "thick": 2, "color": 0}
    answer = acl.himpi.vpc_draw_line(chn, {"src": src, "dst": out, "count": 1, "line": [line]}, 0)
    assert answer == (0, VPC | NOT_SUPPORT)
