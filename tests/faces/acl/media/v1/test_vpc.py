"""acl.media: VPC calls. Numbers come from OpenCV and numpy."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

import acl
from tests.faces.acl.media.v1.support import (
    BGR,
    NV12,
    NV21,
    RGB,
    RGBA,
    YUV_400,
    Array,
    Pic,
    channel,
    download,
    nv12,
    rgb,
    roi,
)
from tests.support import Hold, in_thread, message, ok

pytestmark = pytest.mark.usefixtures("runtime")
media = acl.media


@pytest.fixture
def ch(runtime: None) -> int:
    return channel()


def config(interpolation: int) -> int:
    handle: int = media.dvpp_create_resize_config()
    ok(media.dvpp_set_resize_config_interpolation(handle, interpolation))
    return handle


def done(code: int, target: Pic | None = None, stream: int = 0) -> None:
    """The call and its task succeeded."""
    ok(code)
    ok(acl.rt.synchronize_stream(stream))
    if target is not None:
        assert media.dvpp_get_pic_desc_ret_code(target.desc) == 0


def near(pixels: Array, wanted: Array, by: int = 1) -> None:
    assert pixels.shape == wanted.shape
    assert np.abs(pixels.astype(int) - wanted.astype(int)).max() <= by


def scaled(plane: Array, width: int, height: int, how: int = cv2.INTER_LINEAR) -> Array:
    return cv2.resize(plane, (width, height), interpolation=how)


# ---- scaling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(32, 20), (200, 120), (96, 60), (64, 64)], ids=str)
def test_nv12_is_resized_as_opencv_does(ch: int, size: tuple[int, int]) -> None:
    source, target = nv12(96, 60), Pic(NV12, *size)
    done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, config(1), 0), target)
    near(target.first(), scaled(source.first(), *size))
    near(target.chroma(), scaled(source.chroma(), size[0] // 2, size[1] // 2))


@pytest.mark.parametrize("form", [RGB, BGR])
def test_resize_rgb_as_opencv_does(ch: int, form: int) -> None:
    source, target = rgb(100, 70, form), Pic(form, 51, 33)
    done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, 0, 0), target)
    near(target.first(), scaled(source.first(), 51, 33))


def test_resizing_to_the_nearest_pixel_is_exact(ch: int) -> None:
    source, target = rgb(100, 70), Pic(RGB, 50, 35)
    done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, config(2), 0), target)
    near(target.first(), scaled(source.first(), 50, 35, cv2.INTER_NEAREST), 0)


@pytest.mark.parametrize("interpolation", range(6))
def test_every_interpolation_gives_a_picture(ch: int, interpolation: int) -> None:
    source, target = nv12(128, 64), Pic(NV12, 64, 32)
    flat = np.full((64, 128), 90, np.uint8), np.full((32, 128), 140, np.uint8)
    source.write(*flat)
    done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, config(interpolation), 0), target)
    assert (target.first() == 90).all() and (target.chroma() == 140).all()


def test_what_lies_outside_the_picture_does_not_matter_and_is_left_alone(ch: int) -> None:
    source, target = Pic(YUV_400, 50, 30, fill=255), Pic(YUV_400, 100, 60, fill=7)
    source.write(np.full((30, 50), 100, np.uint8))
    done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, 0, 0), target)
    assert (target.first() == 100).all()
    assert (target.memory()[:, 100:] == 7).all()


def test_resize_changes_the_format_on_the_way(ch: int) -> None:
    source, target = nv12(64, 64), Pic(BGR, 32, 32)
    source.write(np.full((64, 64), 120, np.uint8), np.tile(np.array([90, 200], np.uint8), (32, 32)))
    done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, 0, 0), target)
    red = 120 + 1.402 * (200 - 128)
    green = 120 - 0.344 * (90 - 128) - 0.714 * (200 - 128)
    blue = 120 + 1.772 * (90 - 128)
    near(target.first(), np.broadcast_to(np.array([blue, green, red]), (32, 32, 3)))


# ---- cutting and pasting ---------------------------------------------------------------------------------------------


def test_a_crop_is_the_part_of_the_picture(ch: int) -> None:
    source, target = nv12(96, 60), Pic(NV12, 32, 20)
    done(media.dvpp_vpc_crop_async(ch, source.desc, target.desc, roi(16, 10, 32, 20), 0), target)
    near(target.first(), source.first()[10:30, 16:48], 0)
    near(target.chroma(), source.chroma()[5:15, 8:24], 0)


def test_crop_of_another_size_scales(ch: int) -> None:
    source, target = rgb(96, 60), Pic(RGB, 64, 40)
    done(media.dvpp_vpc_crop_async(ch, source.desc, target.desc, roi(5, 7, 33, 21), 0), target)
    near(target.first(), scaled(source.first()[7:28, 5:38], 64, 40))


def test_crop_resize_takes_the_interpolation(ch: int) -> None:
    source, target = rgb(96, 60), Pic(RGB, 32, 20)
    done(media.dvpp_vpc_crop_resize_async(ch, source.desc, target.desc, roi(0, 0, 64, 40), config(2), 0), target)
    near(target.first(), source.first()[:40:2, :64:2], 0)


def test_paste_writes_its_region_only(ch: int) -> None:
    source, target = nv12(64, 64), Pic(NV12, 96, 96, fill=3)
    call = media.dvpp_vpc_crop_and_paste_async
    done(call(ch, source.desc, target.desc, roi(0, 0, 32, 32), roi(48, 16, 32, 32), 0), target)
    luma, chroma = np.full((96, 96), 3, np.uint8), np.full((48, 48, 2), 3, np.uint8)
    luma[16:48, 48:80], chroma[8:24, 24:40] = source.first()[:32, :32], source.chroma()[:16, :16]
    near(target.first(), luma, 0)
    near(target.chroma(), chroma, 0)


def test_paste_scales_where_the_sizes_differ(ch: int) -> None:
    source, target = rgb(64, 64), Pic(RGB, 96, 96)
    call = media.dvpp_vpc_crop_resize_paste_async
    done(call(ch, source.desc, target.desc, roi(8, 8, 40, 20), roi(16, 30, 80, 60), config(1), 0), target)
    near(target.first()[30:90, 16:96], scaled(source.first()[8:28, 8:48], 80, 60))
    assert not target.first()[:30].any() and not target.first()[:, :16].any()


def test_a_region_is_read_when_the_call_is_made(ch: int) -> None:
    stream = ok(acl.rt.create_stream())
    source, target = nv12(64, 64), Pic(NV12, 32, 32)
    region = roi(16, 16, 32, 32)
    with Hold(stream):
        ok(media.dvpp_vpc_crop_async(ch, source.desc, target.desc, region, stream))
        ok(media.dvpp_set_roi_config(region, 0, 31, 0, 31))
        ok(media.dvpp_destroy_roi_config(region))
        ok(media.dvpp_set_pic_desc_width(source.desc, 1))
        ok(media.dvpp_destroy_pic_desc(source.desc))
    done(0, target, stream)
    near(target.first(), source.first()[16:48, 16:48], 0)


def test_the_bounds_can_be_set_one_by_one(ch: int) -> None:
    source, target = nv12(64, 64), Pic(NV12, 32, 32)
    region = roi(0, 0, 1, 1)
    for name, value in {"left": 8, "right": 39, "top": 4, "bottom": 35}.items():
        ok(getattr(media, f"dvpp_set_roi_config_{name}")(region, value))
    done(media.dvpp_vpc_crop_async(ch, source.desc, target.desc, region, 0), target)
    near(target.first(), source.first()[4:36, 8:40], 0)


BAD_REGIONS = [(40, 0, 32, 10), (0, 40, 10, 32), (64, 0, 1, 1), (5, 5, 0, 5), (5, 5, 5, -2), ((1 << 32) - 1, 0, 2, 2)]


@pytest.mark.parametrize("region", BAD_REGIONS, ids=str)
def test_regions_outside_are_refused_at_once(ch: int, region: tuple[int, int, int, int]) -> None:
    source, target = nv12(64, 64), Pic(NV12, 64, 64)
    bad, good = roi(*region), roi(0, 0, 32, 32)
    assert media.dvpp_vpc_crop_async(ch, source.desc, target.desc, bad, 0) == 100000
    assert "crop region" in message()
    assert media.dvpp_vpc_crop_and_paste_async(ch, source.desc, target.desc, good, bad, 0) == 100000
    assert "paste region" in message()
    ok(acl.rt.synchronize_stream(0))
    assert not target.memory().any()


# ---- colours ---------------------------------------------------------------------------------------------------------


def test_convert_color_to_grey_and_back(ch: int) -> None:
    source, grey, back = nv12(64, 32), Pic(YUV_400, 64, 32), Pic(NV21, 64, 32)
    done(media.dvpp_vpc_convert_color_async(ch, source.desc, grey.desc, 0), grey)
    near(grey.first(), source.first(), 0)
    done(media.dvpp_vpc_convert_color_async(ch, grey.desc, back.desc, 0), back)
    near(back.first(), source.first(), 0)
    assert (back.chroma() == 128).all()


def test_convert_color_nv12_to_nv21_swaps(ch: int) -> None:
    source, target = nv12(64, 32), Pic(NV21, 64, 32)
    done(media.dvpp_vpc_convert_color_async(ch, source.desc, target.desc, 0), target)
    near(target.chroma(), source.chroma()[:, :, ::-1], 0)


def test_rgb_to_bgr_and_rgba(ch: int) -> None:
    source, bgr, rgba = rgb(33, 17), Pic(BGR, 33, 17), Pic(RGBA, 33, 17)
    done(media.dvpp_vpc_convert_color_async(ch, source.desc, bgr.desc, 0), bgr)
    near(bgr.first(), source.first()[:, :, ::-1], 0)
    done(media.dvpp_vpc_convert_color_async(ch, source.desc, rgba.desc, 0), rgba)
    near(rgba.first()[:, :, :3], source.first(), 0)


@pytest.mark.parametrize(
    ("matrix", "rows"),
    [
        (0, (1, 0, 1.402, -0.344, -0.714, 1.772)),
        (1, (1.16438, 16, 1.59602, -0.39176, -0.81297, 2.01723)),
        (2, (1, 0, 1.5748, -0.1873, -0.4681, 1.8556)),
        (3, (1.16438, 16, 1.79274, -0.21325, -0.53291, 2.11240)),
    ],
)
def test_the_matrix_of_the_channel_is_used(ch: int, matrix: int, rows: tuple[float, ...]) -> None:
    gain, offset, rv, gu, gv, bu = rows
    ok(media.dvpp_set_channel_desc_param(ch, 0, matrix))
    source, target = nv12(32, 32), Pic(RGB, 32, 32)
    source.write(np.full((32, 32), 100, np.uint8), np.tile(np.array([110, 150], np.uint8), (16, 16)))
    done(media.dvpp_vpc_convert_color_async(ch, source.desc, target.desc, 0), target)
    y, u, v = gain * (100 - offset), 110 - 128, 150 - 128
    near(target.first(), np.broadcast_to(np.array([y + rv * v, y + gu * u + gv * v, y + bu * u]), (32, 32, 3)))


def test_convert_color_does_not_scale(ch: int) -> None:
    assert media.dvpp_vpc_convert_color_async(ch, nv12(64, 32).desc, Pic(RGB, 32, 32).desc, 0) == 100000
    assert "same size" in message()


# ---- batches ---------------------------------------------------------------------------------------------------------


class Batch:
    """Two inputs, three outputs: two regions of the first picture, one of the second."""

    def __init__(self) -> None:
        self.source, self.target = media.dvpp_create_batch_pic_desc(2), media.dvpp_create_batch_pic_desc(3)
        self.inputs = []
        for index in range(2):
            original = nv12(96, 64, seed=index)
            pic = Pic(NV12, 96, 64, media.dvpp_get_pic_desc(self.source, index))
            self.inputs.append(pic.write(original.first(), original.chroma()))
        self.outputs = [Pic(NV12, 32, 32, media.dvpp_get_pic_desc(self.target, index)) for index in range(3)]
        self.counts = [2, 1]
        self.corners = [(0, 0), (16, 32), (64, 8)]
        self.crops = [roi(left, top, 32, 32) for left, top in self.corners]
        self.pastes = [roi(0, 0, 16, 16) for _ in range(3)]
        self.borders = []
        for _ in range(3):
            border = media.dvpp_create_border_config()
            for name in ("top", "bottom", "left", "right"):
                ok(getattr(media, f"dvpp_set_border_config_{name}")(border, 8))
            for index, value in enumerate((10.0, 20.0, 30.0)):
                ok(media.dvpp_set_border_config_value(border, index, value))
            self.borders.append(border)

    def wanted(self, index: int) -> tuple[Array, Array]:
        (left, top), pic = self.corners[index], self.inputs[0 if index < 2 else 1]
        chroma = pic.chroma()[top // 2 : top // 2 + 16, left // 2 : left // 2 + 16]
        return pic.first()[top : top + 32, left : left + 32], chroma


def test_a_batch_of_crops_is_cut_from_its_pictures(ch: int) -> None:
    batch = Batch()
    answer = media.dvpp_vpc_batch_crop_async(ch, batch.source, batch.counts, batch.target, batch.crops, 0)
    assert answer == (batch.target, 0)
    ok(acl.rt.synchronize_stream(0))
    for index, pic in enumerate(batch.outputs):
        near(pic.first(), batch.wanted(index)[0], 0)
        near(pic.chroma(), batch.wanted(index)[1], 0)


def test_a_batch_of_crops_is_resized(ch: int) -> None:
    batch = Batch()
    batch.outputs = [Pic(NV12, 64, 48, media.dvpp_get_pic_desc(batch.target, index)) for index in range(3)]
    call = media.dvpp_vpc_batch_crop_resize_async
    done(call(ch, batch.source, batch.counts, batch.target, batch.crops, config(1), 0))
    for index, pic in enumerate(batch.outputs):
        near(pic.first(), scaled(batch.wanted(index)[0], 64, 48))


@pytest.mark.parametrize("with_config", [False, True])
def test_a_batch_of_crops_is_pasted(ch: int, with_config: bool) -> None:
    batch = Batch()
    common = (ch, batch.source, batch.counts, batch.target, batch.crops, batch.pastes)
    if with_config:
        ok(media.dvpp_vpc_batch_crop_resize_paste_async(*common, config(1), 0))
    else:
        assert media.dvpp_vpc_batch_crop_and_paste_async(*common, 0) == (batch.target, 0)
    ok(acl.rt.synchronize_stream(0))
    for index, pic in enumerate(batch.outputs):
        near(pic.first()[:16, :16], scaled(batch.wanted(index)[0], 16, 16))
        assert not pic.first()[16:].any() and not pic.first()[:, 16:].any()


def test_a_batch_of_crops_gets_borders(ch: int) -> None:
    batch = Batch()
    call = media.dvpp_vpc_batch_crop_resize_make_border_async
    done(call(ch, batch.source, batch.counts, batch.target, batch.crops, batch.borders, 0, 0))
    for index, pic in enumerate(batch.outputs):
        near(pic.first()[8:24, 8:24], scaled(batch.wanted(index)[0], 16, 16))
        assert (pic.first()[:8] == 10).all() and (pic.first()[:, 24:] == 10).all()
        assert (pic.chroma()[:4] == (20, 30)).all()


def test_lists_that_do_not_fit(ch: int) -> None:
    batch = Batch()

    def crop(counts: list[int], crops: list[int]) -> Any:
        return media.dvpp_vpc_batch_crop_async(ch, batch.source, counts, batch.target, crops, 0)

    assert crop([1, 1], batch.crops) == (batch.target, 100000)
    assert crop([3], batch.crops) == (batch.target, 100000)
    assert crop([1, 1], batch.crops[:2]) == (batch.target, 100000)
    assert crop([2, 1], [*batch.crops[:2], roi(0, 0, 500, 5)]) == (batch.target, 100000)
    assert crop([2, 1], [*batch.crops[:2], 0]) == (batch.target, 100000)
    assert crop([2, 1], [*batch.crops[:2], batch.target]) == (batch.target, 107000)
    resize = media.dvpp_vpc_batch_crop_resize_async
    assert resize(ch, batch.source, [1, 1], batch.target, batch.crops, 0, 0) == 100000
    paste = media.dvpp_vpc_batch_crop_resize_paste_async
    assert paste(ch, batch.source, [2, 1], batch.target, batch.crops, batch.pastes[:2], 0, 0) == 100000
    border = media.dvpp_vpc_batch_crop_resize_make_border_async
    assert border(ch, batch.source, [2, 1], batch.target, batch.crops, batch.borders[:2], 0, 0) == 100000


@pytest.mark.parametrize(
    ("counts", "crops"), [([], [1]), ([1], []), ([1] * 257, [1]), ([257], [1]), ([1], [1] * 257), ([-1], [1])]
)
def test_lists_that_the_binding_refuses(ch: int, counts: list[int], crops: list[int]) -> None:
    batch = Batch()
    with pytest.raises(ValueError, match="256"):
        media.dvpp_vpc_batch_crop_async(ch, batch.source, counts, batch.target, crops, 0)
    with pytest.raises(ValueError, match="256"):
        media.dvpp_vpc_batch_crop_and_paste_async(ch, batch.source, counts, batch.target, crops, crops, 0)


def test_a_list_must_be_one(ch: int) -> None:
    batch = Batch()
    with pytest.raises(TypeError):
        media.dvpp_vpc_batch_crop_async(ch, batch.source, 3, batch.target, batch.crops, 0)
    with pytest.raises(TypeError):
        media.dvpp_vpc_batch_crop_async(ch, batch.source, ["a", 1], batch.target, batch.crops, 0)


# ---- borders, histograms, tables, pyramids ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "same"),
    [(0, cv2.BORDER_CONSTANT), (1, cv2.BORDER_REPLICATE), (2, cv2.BORDER_REFLECT), (3, cv2.BORDER_REFLECT_101)],
)
def test_borders_are_those_of_opencv(ch: int, kind: int, same: int) -> None:
    source, target = rgb(40, 30), Pic(RGB, 40 + 4 + 8, 30 + 2 + 6)
    border = media.dvpp_create_border_config()
    ok(media.dvpp_set_border_config_border_type(border, kind))
    for name, width in {"top": 2, "bottom": 6, "left": 4, "right": 8}.items():
        ok(getattr(media, f"dvpp_set_border_config_{name}")(border, width))
    for index, value in enumerate((200.0, 100.0, 50.0)):
        ok(media.dvpp_set_border_config_value(border, index, value))
    done(media.dvpp_vpc_make_border_async(ch, source.desc, target.desc, border, 0), target)
    near(target.first(), cv2.copyMakeBorder(source.first(), 2, 6, 4, 8, same, value=(200, 100, 50)), 0)


def test_borders_that_do_not_fit(ch: int) -> None:
    border = media.dvpp_create_border_config()
    ok(media.dvpp_set_border_config_left(border, 10))
    source = nv12(64, 64)
    assert media.dvpp_vpc_make_border_async(ch, source.desc, Pic(NV12, 64, 64).desc, border, 0) == 100000
    ok(media.dvpp_set_border_config_left(border, (1 << 32) - 1))
    assert media.dvpp_vpc_make_border_async(ch, source.desc, Pic(NV12, 64, 64).desc, border, 0) == 100000
    assert "leaves nothing" in message()


def test_a_histogram_counts_every_value(ch: int) -> None:
    hist, source = media.dvpp_create_hist(), rgb(100, 70)
    done(media.dvpp_vpc_calc_hist_async(ch, source.desc, hist, 0, 0))
    assert media.dvpp_get_hist_ret_code(hist) == 0
    for dim in range(3):
        ptr, length = ok(media.dvpp_get_hist_data(hist, dim))
        counts = download(ptr, length * 4).view(np.uint32)
        np.testing.assert_array_equal(counts, np.bincount(source.first()[:, :, dim].reshape(-1), minlength=256))


@pytest.mark.parametrize("form", [18, 1010])
def test_histograms_and_tables_are_for_bytes(ch: int, form: int) -> None:
    source, target = Pic(RGBA, 64, 64), Pic(RGBA, 64, 64)
    for pic in (source, target):
        ok(media.dvpp_set_pic_desc_format(pic.desc, form))
    assert media.dvpp_vpc_calc_hist_async(ch, source.desc, media.dvpp_create_hist(), 0, 0) == 100000
    call = media.dvpp_vpc_equalize_hist_async
    assert call(ch, source.desc, target.desc, media.dvpp_create_lut_map(), 0) == 100000


def test_a_histogram_that_is_destroyed_before_its_task(ch: int) -> None:
    stream, hist, source = ok(acl.rt.create_stream()), media.dvpp_create_hist(), rgb(32, 32)
    with Hold(stream):
        ok(media.dvpp_vpc_calc_hist_async(ch, source.desc, hist, 0, stream))
        ok(media.dvpp_destroy_hist(hist))
    assert acl.rt.synchronize_stream(stream) == 507018


def test_equalize_through_the_table(ch: int) -> None:
    source, target, lut = rgb(100, 70), Pic(RGB, 100, 70), media.dvpp_create_lut_map()
    tables = np.stack([255 - np.arange(256), np.arange(256) // 2, np.arange(256)]).astype(np.uint8)
    for dim in range(3):
        ptr, length = ok(media.dvpp_get_lut_map_data(lut, dim))
        content = tables[dim].tobytes()
        ok(acl.rt.memcpy(ptr, length, acl.util.bytes_to_ptr(content), length, 1))
    done(media.dvpp_vpc_equalize_hist_async(ch, source.desc, target.desc, lut, 0), target)
    near(target.first(), np.stack([tables[dim][source.first()[:, :, dim]] for dim in range(3)], axis=2), 0)
    assert media.dvpp_vpc_equalize_hist_async(ch, source.desc, Pic(BGR, 100, 70).desc, lut, 0) == 100000


@pytest.mark.parametrize("size", [(64, 40), (65, 41)])
def test_a_step_of_the_pyramid_is_that_of_opencv(ch: int, size: tuple[int, int]) -> None:
    width, height = size
    values = np.random.default_rng(5).integers(0, 256, (height, width)).astype(np.uint8)
    source, target = Pic(YUV_400, width, height).write(values), Pic(YUV_400, (width + 1) // 2, (height + 1) // 2)
    done(media.dvpp_vpc_pyr_down_async(ch, source.desc, target.desc, 0, 0), target)
    inner = cv2.pyrDown(values)[2:-2, 2:-2]  # its edges are continued in another way
    near(target.first()[2:-2, 2:-2], inner)


def test_pyramids_that_cannot_be(ch: int) -> None:
    source, target = Pic(YUV_400, 64, 40), Pic(YUV_400, 32, 20)
    call = media.dvpp_vpc_pyr_down_async
    assert call(ch, source.desc, target.desc, 5, 0) == 100000
    assert call(ch, source.desc, Pic(YUV_400, 30, 20).desc, 0, 0) == 100000
    assert call(ch, nv12(64, 40).desc, Pic(NV12, 32, 20).desc, 0, 0) == 100000
    assert call(ch, Pic(YUV_400, 16, 10).desc, Pic(YUV_400, 8, 5).desc, 0, 0) == 100000
    assert media.dvpp_vpc_calc_hist_async(ch, source.desc, media.dvpp_create_hist(), 5, 0) == 100000


# ---- misuse ----------------------------------------------------------------------------------------------------------


def test_handles_of_the_wrong_kind(ch: int) -> None:
    source, target, region = nv12(64, 64), Pic(NV12, 32, 32), roi(0, 0, 32, 32)
    good = [ch, source.desc, target.desc, region, 0]
    for index in range(4):
        for value, code in ((0, 100000), (acl.create_data_buffer(0, 0), 107000), (5, 107000)):
            arguments = [value if place == index else argument for place, argument in enumerate(good)]
            assert media.dvpp_vpc_crop_async(*arguments) == code
    assert media.dvpp_vpc_crop_async(*good[:4], region) == 107000
    assert media.dvpp_vpc_resize_async(ch, source.desc, target.desc, region, 0) == 107000
    assert in_thread(lambda: media.dvpp_vpc_crop_async(*good)) == 107002
    done(media.dvpp_vpc_crop_async(*good), target)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("data", 0), ("size", 100), ("size", 0), ("format", 999), ("format", -1), ("width", 0), ("height", 0), ("width", 1 << 31), ("height", 1 << 30),
        ("width_stride", 10), ("width_stride", 0), ("height_stride", 10), ("height_stride", 0), ("width_stride", (1 << 32) - 1), ("data", 0xDEADBEEF),
    ],
)  # fmt: skip
def test_pictures_that_do_not_fit_their_memory(ch: int, field: str, value: int) -> None:
    for broken in (0, 1):
        pics = [nv12(64, 64), Pic(NV12, 32, 32)]
        ok(getattr(media, f"dvpp_set_pic_desc_{field}")(pics[broken].desc, value))
        code = media.dvpp_vpc_resize_async(ch, pics[0].desc, pics[1].desc, 0, 0)
        assert code == (107000 if value == 0xDEADBEEF else 100000)
        assert ("input" if broken == 0 else "output") in message() or field in ("format", "data")
    ok(acl.rt.synchronize_stream(0))


def test_memory_that_is_smaller_than_the_description_says(ch: int) -> None:
    source, target = nv12(64, 64), Pic(NV12, 32, 32)
    small = ok(media.dvpp_malloc(64))
    ok(media.dvpp_set_pic_desc_data(target.desc, small))
    assert media.dvpp_vpc_resize_async(ch, source.desc, target.desc, 0, 0) == 107000


@pytest.mark.parametrize("which", [0, 1])
def test_memory_that_is_freed_before_the_task_runs(ch: int, which: int) -> None:
    stream = ok(acl.rt.create_stream())
    pics = [nv12(64, 64), Pic(NV12, 32, 32)]
    with Hold(stream):
        ok(media.dvpp_vpc_resize_async(ch, pics[0].desc, pics[1].desc, 0, stream))
        ok(media.dvpp_free(pics[which].ptr))
    assert acl.rt.synchronize_stream(stream) == 507018
    assert "freed already" in message()
    assert media.dvpp_get_pic_desc_ret_code(pics[1].desc) == 1
    ok(acl.rt.synchronize_stream(stream))


def test_plain_device_memory_and_host_memory_will_do(ch: int) -> None:
    source, target = nv12(64, 64), Pic(NV12, 32, 32)
    plain = ok(acl.rt.malloc(source.size, 0))
    ok(acl.rt.memcpy(plain, source.size, source.ptr, source.size, 3))
    ok(media.dvpp_set_pic_desc_data(source.desc, plain))
    done(media.dvpp_vpc_crop_async(ch, source.desc, target.desc, roi(0, 0, 32, 32), 0), target)
    near(target.first(), source.first()[:32, :32], 0)


def test_strides_swapped_in_a_square_picture(ch: int) -> None:
    """A ResNet sample does it."""
    source, target = nv12(224, 224), Pic(NV12, 224, 224)
    ok(media.dvpp_set_pic_desc_width_stride(target.desc, target.height_stride))
    ok(media.dvpp_set_pic_desc_height_stride(target.desc, target.width_stride))
    done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, 0, 0), target)
    near(target.first(), source.first(), 0)


def test_a_picture_onto_itself(ch: int) -> None:
    pic = nv12(64, 64)
    before = pic.first()
    done(media.dvpp_vpc_resize_async(ch, pic.desc, pic.desc, 0, 0), pic)
    near(pic.first(), before, 0)


# ---- chips -----------------------------------------------------------------------------------------------------------


def restart(monkeypatch: pytest.MonkeyPatch, **settings: str) -> int:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    ok(acl.finalize())
    ok(acl.init())
    ok(acl.rt.set_device(0))
    return channel()


def test_strict_mode_refuses_what_the_chip_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    ch = restart(monkeypatch, SOFTNPU_SOC="Ascend310", SOFTNPU_CHECK="strict")
    source, target = nv12(64, 64), Pic(NV12, 32, 32)
    assert media.dvpp_vpc_convert_color_async(ch, source.desc, Pic(NV21, 64, 64).desc, 0) == 200001
    assert media.dvpp_vpc_crop_async(ch, source.desc, target.desc, roi(1, 0, 32, 32), 0) == 100000
    assert "must start even" in message()
    assert media.dvpp_vpc_resize_async(ch, source.desc, Pic(RGB, 32, 32).desc, 0, 0) == 100000
    done(media.dvpp_vpc_crop_async(ch, source.desc, target.desc, roi(2, 0, 32, 32), 0), target)


def test_the_default_interpolation_depends_on_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for soc in ("Ascend310", "Ascend310P3", "Ascend310B1"):
        ch = restart(monkeypatch, SOFTNPU_SOC=soc)
        source, target = nv12(128, 128), Pic(NV12, 48, 48)
        done(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, 0, 0), target)
        results.append(target.first())
    linear = scaled(nv12(128, 128).first(), 48, 48)
    near(results[1], linear)
    near(results[2], linear)
    assert np.abs(results[0].astype(int) - linear).max() > 1
