"""acl.himpi: channels, tasks, and the calls that cut, scale, paste, frame and convert. Numbers are OpenCV's and NumPy's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

import acl
from tests.faces.acl.media.v2.support import (
    ARGB,
    BGR,
    BUF_EMPTY,
    BUF_FULL,
    EXIST,
    FOREVER,
    GRAY,
    ILLEGAL_PARAM,
    INVALID_CHN_ID,
    NOT_PERM,
    NOT_READY,
    NOT_SUPPORT,
    NULL_PTR,
    NV12,
    NV16,
    NV21,
    PLANAR_RGB,
    RGB,
    RGBA,
    TIMEOUT,
    UNEXIST,
    VPC,
    YUYV,
    Array,
    done,
    fetch,
    noise,
    pic,
    planes,
    put,
    region,
    smooth,
)
from tests.support import in_thread, message, ok

ATTR = {"attr": 0, "pic_width": 0, "pic_height": 0}


def nv12(width: int, height: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Bytes, luma and chroma of a picture."""
    luma, chroma = noise(height, width, seed=seed), noise(height // 2, width // 2, 2, seed=seed + 1)
    return np.concatenate([luma.ravel(), chroma.ravel()]), luma, chroma


def near(first: Array, second: Array, most: int = 1) -> None:
    """Equal but for rounding."""
    assert first.shape == second.shape
    assert np.abs(first.astype(int) - second.astype(int)).max() <= most


# ---- channels --------------------------------------------------------------------------------------------------------


def test_a_channel_exists_between_create_and_destroy(himpi: None) -> None:
    assert acl.himpi.vpc_create_chn(0, ATTR) == 0
    assert acl.himpi.vpc_create_chn(0, ATTR) == VPC | EXIST
    assert acl.himpi.vpc_destroy_chn(0) == 0
    assert acl.himpi.vpc_destroy_chn(0) == VPC | UNEXIST
    assert acl.himpi.vpc_create_chn(0, {}) == 0
    assert acl.himpi.vpc_destroy_chn(0) == 0
    assert "channel 0 does not exist" in message()


@pytest.mark.parametrize("number", [-1, 256, 1 << 30])
def test_channel_ids_out_of_range(himpi: None, number: int) -> None:
    assert acl.himpi.vpc_create_chn(number, ATTR) == VPC | INVALID_CHN_ID
    assert acl.himpi.vpc_destroy_chn(number) == VPC | INVALID_CHN_ID
    assert acl.himpi.vpc_get_process_result(number, 1, 0) == VPC | INVALID_CHN_ID


def test_system_picks_the_first_free_id(himpi: None) -> None:
    assert acl.himpi.vpc_create_chn(1, ATTR) == 0
    assert [acl.himpi.vpc_sys_create_chn(ATTR) for _ in range(2)] == [(0, 0), (2, 0)]


def test_there_are_256_channels(himpi: None) -> None:
    numbers = [acl.himpi.vpc_sys_create_chn(ATTR) for _ in range(256)]
    assert numbers == [(number, 0) for number in range(256)]
    chn, ret = acl.himpi.vpc_sys_create_chn(ATTR)
    assert (chn, ret) == (0, VPC | 12)
    assert acl.himpi.sys_exit() == 0


def test_nothing_before_sys_init(runtime: None) -> None:
    assert acl.himpi.vpc_create_chn(0, ATTR) == VPC | NOT_READY
    assert acl.himpi.vpc_resize(0, {}, {}, 0, 0, 0, 0) == (0, VPC | NOT_READY)
    assert "sys_init" in message()


def test_the_result_of_a_task_is_fetched_once(chn: int) -> None:
    src, out = pic(GRAY, 64, 64, noise(64, 64)), pic(GRAY, 32, 32)
    task, ret = acl.himpi.vpc_resize(chn, src, out, 0, 0, 0, 0)
    assert ret == 0 and task > 0
    assert acl.himpi.vpc_get_process_result(chn, task + 1, 0) == VPC | ILLEGAL_PARAM
    assert acl.himpi.vpc_get_process_result(chn, task, 0) == 0
    assert acl.himpi.vpc_get_process_result(chn, task, 0) == VPC | ILLEGAL_PARAM  # fetched
    assert acl.himpi.vpc_get_process_result(chn, task, -2) == VPC | ILLEGAL_PARAM
    assert acl.himpi.vpc_resize(chn, src, out, 0, 0, 0, -2) == (0, VPC | ILLEGAL_PARAM)


def test_old_results_are_forgotten(chn: int) -> None:
    src, out = pic(GRAY, 16, 16, noise(16, 16)), pic(GRAY, 16, 16)
    tasks = [ok(acl.himpi.vpc_convert_color(chn, src, out, 0)) for _ in range(4097)]
    assert len(set(tasks)) == 4097
    assert acl.himpi.vpc_get_process_result(chn, tasks[0], 0) == VPC | ILLEGAL_PARAM
    assert acl.himpi.vpc_get_process_result(chn, tasks[1], 0) == 0


def held(chn: int) -> threading.Event:
    """Keep the worker of a channel busy until the event is set."""
    from softnpu.media.v2.sys.system import need_system

    gate = threading.Event()
    need_system("vpc").vpc.get(chn).submit(lambda: gate.wait(20), 0, False)
    return gate


def test_a_channel_takes_1023_tasks_and_refuses_more(chn: int) -> None:
    gate = held(chn)
    src, out = pic(GRAY, 16, 16, noise(16, 16)), pic(GRAY, 16, 16)
    tasks = [ok(acl.himpi.vpc_convert_color(chn, src, out, 0)) for _ in range(1023)]
    assert acl.himpi.vpc_convert_color(chn, src, out, 0) == (0, VPC | BUF_FULL)
    before = time.monotonic()
    assert acl.himpi.vpc_convert_color(chn, src, out, 50) == (0, VPC | TIMEOUT)
    assert 0.04 < time.monotonic() - before < 5
    assert acl.himpi.vpc_get_process_result(chn, tasks[-1], 0) == VPC | BUF_EMPTY
    assert acl.himpi.vpc_get_process_result(chn, tasks[-1], 30) == VPC | TIMEOUT
    gate.set()
    assert [acl.himpi.vpc_get_process_result(chn, task, FOREVER) for task in tasks] == [0] * 1023


def test_destroy_waits_for_its_tasks(himpi: None) -> None:
    ok(acl.himpi.vpc_create_chn(9, ATTR))
    gate = held(9)
    data = noise(40, 40)
    src, out = pic(GRAY, 40, 40, data), pic(GRAY, 40, 40)
    ok(acl.himpi.vpc_convert_color(9, src, out, 0))
    threading.Timer(0.1, gate.set).start()
    assert acl.himpi.vpc_destroy_chn(9) == 0
    assert (planes(out)[0] == data).all()


def test_a_waiting_thread_is_woken_by_destroy(himpi: None) -> None:
    ok(acl.himpi.vpc_create_chn(9, ATTR))
    gate = held(9)
    src, out = pic(GRAY, 16, 16, noise(16, 16)), pic(GRAY, 16, 16)
    task = ok(acl.himpi.vpc_convert_color(9, src, out, 0))
    threading.Timer(0.1, lambda: (acl.himpi.vpc_destroy_chn(9), None)[1]).start()
    threading.Timer(0.2, gate.set).start()
    assert in_thread(lambda: acl.himpi.vpc_get_process_result(9, task, FOREVER)) == 0


def test_large_pictures_do_not_block_the_caller(chn: int) -> None:
    src, out = pic(RGB, 4096, 4096), pic(RGB, 2048, 2048)
    gate = held(chn)
    task = ok(acl.himpi.vpc_resize(chn, src, out, 0, 0, 0, 0))
    assert acl.himpi.vpc_get_process_result(chn, task, 0) == VPC | BUF_EMPTY
    gate.set()
    assert acl.himpi.vpc_get_process_result(chn, task, FOREVER) == 0
    assert (planes(out)[0] == 0xEE).all()


def test_channels_work_in_threads_of_their_own(himpi: None) -> None:
    """Each thread has a channel; nobody sees pictures of others."""

    def work(number: int) -> None:
        ok(acl.himpi.vpc_create_chn(number, ATTR))
        data = noise(120, 160, 3, seed=number)
        src, out = pic(RGB, 160, 120, data), pic(RGB, 80, 60)
        for _ in range(20):
            done(number, acl.himpi.vpc_resize(number, src, out, 0, 0, 0, FOREVER))
            near(planes(out)[0], cv2.resize(data, (80, 60)))
        ok(acl.himpi.vpc_destroy_chn(number))

    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            ok(acl.rt.set_device(0))
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_threads_share_a_channel(chn: int) -> None:
    datas = [noise(64, 64, seed=n) for n in range(4)]
    pairs = [(pic(GRAY, 64, 64, data), pic(GRAY, 64, 64)) for data in datas]
    results: list[int] = []

    def run(src: dict[str, Any], out: dict[str, Any]) -> None:
        for _ in range(50):
            task, ret = acl.himpi.vpc_convert_color(chn, src, out, FOREVER)
            results.extend([ret, acl.himpi.vpc_get_process_result(chn, task, FOREVER)])

    threads = [threading.Thread(target=run, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == [0] * 400
    assert all((planes(out)[0] == data).all() for data, (_, out) in zip(datas, pairs, strict=True))


def test_the_workspace_of_a_channel_is_set_once(chn: int) -> None:
    size = dict.fromkeys(
        ("max_source_pic_width", "max_source_pic_height", "max_dest_pic_width", "max_dest_pic_height"), 640
    )
    assert acl.himpi.vpc_set_chn_workspace(chn, [{}], 1) == VPC | ILLEGAL_PARAM
    assert acl.himpi.vpc_set_chn_workspace(chn, [{"func": 0, **size}], 1) == 0
    assert acl.himpi.vpc_set_chn_workspace(chn, [{"func": 0, **size}], 1) == VPC | NOT_PERM
    with pytest.raises(TypeError):
        acl.himpi.vpc_set_chn_workspace(chn, [size], 2)


def test_options_are_on_no_chip(chn: int) -> None:
    assert acl.himpi.vpc_set_chn_opt_attr(chn, {"attr_type": 0, "len": 4, "value": 0}) == VPC | NOT_SUPPORT


# ---- resize ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "way"), [(0, cv2.INTER_LINEAR), (1, cv2.INTER_NEAREST)])
@pytest.mark.parametrize("size", [(96, 40), (320, 200)])
def test_nv12_is_resized_as_opencv_does(chn: int, number: int, way: int, size: tuple[int, int]) -> None:
    whole, luma, chroma = nv12(192, 108)
    src, out = pic(NV12, 192, 108, whole, stride=208, rows=112), pic(NV12, *size, stride=size[0] + 16)
    done(chn, acl.himpi.vpc_resize(chn, src, out, 0, 0, number, FOREVER))
    results = planes(out)
    near(results[0], cv2.resize(luma, size, interpolation=way))
    near(results[1], cv2.resize(chroma, (size[0] // 2, size[1] // 2), interpolation=way))
    padding = fetch(out["picture_address"], out["picture_buffer_size"]).reshape(-1, size[0] + 16)[:, size[0] :]
    assert (padding == 0xEE).all()


@pytest.mark.parametrize("form", [RGB, BGR, RGBA])
def test_packed_colours_are_resized_as_opencv_does(chn: int, form: int) -> None:
    channels = 4 if form == RGBA else 3
    data = noise(90, 120, channels)
    src, out = pic(form, 120, 90, data), pic(form, 60, 45)
    done(chn, acl.himpi.vpc_resize(chn, src, out, 0, 0, 0, FOREVER))
    near(planes(out)[0][:, :, :3], cv2.resize(data, (60, 45))[:, :, :3])


def test_factors_may_take_the_place_of_sizes(chn: int) -> None:
    data = noise(90, 120)
    src, out = pic(GRAY, 120, 90, data), pic(GRAY, 60, 30, stride=64)
    out["picture_width"] = out["picture_height"] = 0
    done(chn, acl.himpi.vpc_resize(chn, src, out, 0.5, 1 / 3, 0, FOREVER))
    out.update(picture_width=60, picture_height=30)
    near(planes(out)[0], cv2.resize(data, (60, 30)))


def test_factors_do_not_count_beside_a_size(chn: int) -> None:
    data = noise(90, 120)
    src, out = pic(GRAY, 120, 90, data), pic(GRAY, 60, 45)
    done(chn, acl.himpi.vpc_resize(chn, src, out, 17.0, float("nan"), 0, FOREVER))
    near(planes(out)[0], cv2.resize(data, (60, 45)))


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_factors_that_give_no_size(chn: int, factor: float) -> None:
    src, out = pic(GRAY, 120, 90), pic(GRAY, 60, 45)
    out["picture_width"] = out["picture_height"] = 0
    assert acl.himpi.vpc_resize(chn, src, out, factor, 1.0, 0, 0) == (0, VPC | ILLEGAL_PARAM)


def test_resizing_to_another_format_converts_first(chn: int) -> None:
    """601 of full range, from the formula of the manual."""
    height, width = 40, 60
    luma, chroma = smooth(height, width), np.full((height // 2, width // 2, 2), (90, 170), np.uint8)
    src = pic(NV12, width, height, np.concatenate([luma.ravel(), chroma.ravel()]))
    out = pic(RGB, width // 2, height // 2)
    done(chn, acl.himpi.vpc_resize(chn, src, out, 0, 0, 0, FOREVER))
    y, u, v = luma.astype(float), 90 - 128, 170 - 128
    full = np.stack([y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u], axis=2).clip(0, 255)
    near(planes(out)[0], cv2.resize(full.round().astype(np.uint8), (width // 2, height // 2)), 2)


MISTAKES = [
    ({"picture_address": 0}, NULL_PTR),
    ({"picture_address": 12345}, ILLEGAL_PARAM),
    ({"picture_width": 0}, ILLEGAL_PARAM),
    ({"picture_height": 1 << 20}, ILLEGAL_PARAM),
    ({"picture_width_stride": 3}, ILLEGAL_PARAM),
    ({"picture_height_stride": 3}, ILLEGAL_PARAM),
    ({"picture_buffer_size": 100}, ILLEGAL_PARAM),
    ({"picture_buffer_size": 1 << 30, "picture_height": 30000, "picture_height_stride": 30000}, ILLEGAL_PARAM),
    ({"picture_format": 999}, ILLEGAL_PARAM),
    ({"picture_format": -1}, ILLEGAL_PARAM),
]


@pytest.mark.parametrize("role", ["src", "dst"])
@pytest.mark.parametrize(("change", "code"), MISTAKES)
def test_wrong_pictures_are_refused(chn: int, role: str, change: dict[str, int], code: int) -> None:
    pictures = {"src": pic(NV12, 64, 64), "dst": pic(NV12, 32, 32)}
    pictures[role].update(change)
    assert acl.himpi.vpc_resize(chn, pictures["src"], pictures["dst"], 0, 0, 0, 0) == (0, VPC | code)
    assert message()


def test_freed_memory_is_refused(chn: int) -> None:
    src, out = pic(GRAY, 64, 64), pic(GRAY, 32, 32)
    ok(acl.himpi.dvpp_free(out["picture_address"]))
    assert acl.himpi.vpc_resize(chn, src, out, 0, 0, 0, 0) == (0, VPC | ILLEGAL_PARAM)


def test_an_unknown_interpolation_is_refused(chn: int) -> None:
    src, out = pic(GRAY, 64, 64), pic(GRAY, 32, 32)
    assert acl.himpi.vpc_resize(chn, src, out, 0, 0, 5, 0) == (0, VPC | ILLEGAL_PARAM)


# ---- regions ---------------------------------------------------------------------------------------------------------


def test_crops_are_the_parts_of_the_picture(chn: int) -> None:
    whole, luma, chroma = nv12(128, 96)
    src = pic(NV12, 128, 96, whole)
    outs = [pic(NV12, 40, 20), pic(NV12, 64, 32)]
    items = [
        {"dest_pic_info": outs[0], "crop_region": region(10, 6, 40, 20)},
        {"dest_pic_info": outs[1], "crop_region": region(64, 64, 64, 32)},
    ]
    done(chn, acl.himpi.vpc_crop(chn, src, items, 2, FOREVER))
    for out, (left, top, width, height) in zip(outs, [(10, 6, 40, 20), (64, 64, 64, 32)], strict=True):
        results = planes(out)
        assert (results[0] == luma[top : top + height, left : left + width]).all()
        assert (results[1] == chroma[top // 2 : (top + height) // 2, left // 2 : (left + width) // 2]).all()


def test_crop_scales_to_another_size(chn: int) -> None:
    data = noise(80, 80)
    src, out = pic(GRAY, 80, 80, data), pic(GRAY, 20, 20)
    items = [{"dest_pic_info": out, "crop_region": region(0, 0, 40, 40)}]
    done(chn, acl.himpi.vpc_crop(chn, src, items, 1, FOREVER))
    near(planes(out)[0], cv2.resize(data[:40, :40], (20, 20)))


@pytest.mark.parametrize(
    "where",
    [(0, 0, 65, 10), (0, 0, 10, 65), (60, 0, 10, 10), (0, 0, 0, 10), (1 << 31, 0, 10, 10), (0, 0, 0xFFFFFFFF, 10)],
)
def test_regions_outside_of_the_picture_are_refused(chn: int, where: tuple[int, int, int, int]) -> None:
    src, out = pic(GRAY, 64, 64), pic(GRAY, 10, 10)
    items = [{"dest_pic_info": out, "crop_region": region(*where)}]
    assert acl.himpi.vpc_crop(chn, src, items, 1, 0) == (0, VPC | ILLEGAL_PARAM)


@pytest.mark.parametrize(
    "name", ["crop", "crop_resize", "crop_resize_paste", "crop_resize_resize_paste", "crop_resize_make_border"]
)
def test_counts_of_regions_are_checked(chn: int, name: str) -> None:
    call = getattr(acl.himpi, f"vpc_{name}")
    src = pic(GRAY, 64, 64)
    assert call(chn, src, [], 0, 0) == (0, VPC | ILLEGAL_PARAM)
    assert call(chn, src, [{}] * 257, 257, 0) == (0, VPC | ILLEGAL_PARAM)
    with pytest.raises(TypeError):
        call(chn, src, [{}], 2, 0)
    with pytest.raises(TypeError):
        call(chn, src, [5], 1, 0)
    with pytest.raises(TypeError):
        call(chn, src, ({},), 1, 0)


def test_a_crop_is_resized_as_opencv_does(chn: int) -> None:
    whole, luma, chroma = nv12(128, 96)
    src, out = pic(NV12, 128, 96, whole), pic(NV12, 32, 24)
    size = {"resize_width": 32, "resize_height": 24, "interpolation": 0}
    item = {"dest_pic_info": out, "crop_region": region(32, 16, 64, 64), "resize_info": size}
    done(chn, acl.himpi.vpc_crop_resize(chn, src, [item], 1, FOREVER))
    results = planes(out)
    near(results[0], cv2.resize(luma[16:80, 32:96], (32, 24)))
    near(results[1], cv2.resize(chroma[8:40, 16:48], (16, 12)))


def test_crop_resize_wants_the_size_of_the_destination(chn: int) -> None:
    src, out = pic(GRAY, 64, 64), pic(GRAY, 32, 24)
    size = {"resize_width": 32, "resize_height": 32, "interpolation": 0}
    item = {"dest_pic_info": out, "crop_region": region(0, 0, 64, 64), "resize_info": size}
    assert acl.himpi.vpc_crop_resize(chn, src, [item], 1, 0) == (0, VPC | ILLEGAL_PARAM)
    assert "32x32" in message()


def paste(
    out: dict[str, Any], where: dict[str, int], left: int, top: int, width: int, height: int, way: int = 0
) -> dict[str, Any]:
    size = {"resize_width": width, "resize_height": height, "interpolation": way}
    place = {"dest_left_offset": left, "dest_top_offset": top}
    return {"dest_pic_info": out, "crop_region": where, "resize_info": size, **place}


def test_only_pasted_areas_are_written_and_the_later_one_wins(chn: int) -> None:
    """Only the pasted areas are written, and the later one wins."""
    data = noise(64, 64, 3)
    src, out = pic(RGB, 64, 64, data), pic(RGB, 100, 80, fill=7)
    items = [
        paste(out, region(0, 0, 64, 64), 10, 10, 32, 32),
        paste(out, region(0, 0, 32, 32), 30, 30, 32, 32),
    ]
    done(chn, acl.himpi.vpc_crop_resize_paste(chn, src, items, 2, FOREVER))
    want = np.full((80, 100, 3), 7, np.uint8)
    want[10:42, 10:42] = cv2.resize(data, (32, 32))
    want[30:62, 30:62] = data[:32, :32]
    near(planes(out)[0], want)
    assert (planes(out)[0][63:] == 7).all()


@pytest.mark.parametrize(
    "place", [(70, 0, 32, 32), (0, 60, 32, 32), (0, 0, 101, 10), (0, 0, 0, 0), (0xFFFFFFFF, 0, 10, 10)]
)
def test_a_paste_outside_of_the_picture_is_refused(chn: int, place: tuple[int, int, int, int]) -> None:
    src, out = pic(GRAY, 64, 64), pic(GRAY, 100, 80)
    item = paste(out, region(0, 0, 64, 64), *place)
    assert acl.himpi.vpc_crop_resize_paste(chn, src, [item], 1, 0) == (0, VPC | ILLEGAL_PARAM)


def test_a_crop_is_resized_twice_and_pasted(chn: int) -> None:
    data = noise(64, 64)
    src, out = pic(GRAY, 64, 64, data), pic(GRAY, 50, 50, fill=1)
    item = paste(out, region(0, 0, 64, 64), 5, 6, 40, 30)
    item["resize_info1"] = {"resize_width": 16, "resize_height": 16, "interpolation": 0}
    item["resize_info2"] = {"resize_width": 40, "resize_height": 30, "interpolation": 1}
    done(chn, acl.himpi.vpc_crop_resize_resize_paste(chn, src, [item], 1, FOREVER))
    want = np.full((50, 50), 1, np.uint8)
    want[6:36, 5:45] = cv2.resize(cv2.resize(data, (16, 16)), (40, 30), interpolation=cv2.INTER_NEAREST)
    near(planes(out)[0], want)
    item["resize_info1"] = {"resize_width": 1 << 20, "resize_height": 1 << 20}
    assert acl.himpi.vpc_crop_resize_resize_paste(chn, src, [item], 1, 0) == (0, VPC | ILLEGAL_PARAM)


KINDS = [cv2.BORDER_CONSTANT, cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT, cv2.BORDER_REFLECT_101, cv2.BORDER_WRAP]


@pytest.mark.parametrize("kind", range(5))
def test_crop_resize_make_border(chn: int, kind: int) -> None:
    data = noise(64, 64, 3)
    src, out = pic(RGB, 64, 64, data), pic(RGB, 60, 50)
    item = paste(out, region(0, 0, 64, 64), 12, 8, 40, 30)
    item.update(border_type=kind, scalar_value={"val": [10.0, 20.0, 30.0, 0.0]})
    done(chn, acl.himpi.vpc_crop_resize_make_border(chn, src, [item], 1, FOREVER))
    small = planes(out)[0][8:38, 12:52]
    near(small, cv2.resize(data, (40, 30)))
    want = cv2.copyMakeBorder(small, 8, 12, 12, 8, KINDS[kind], value=(10, 20, 30))
    assert (planes(out)[0] == want).all()


def test_a_border_of_rgb_around_yuv(chn: int) -> None:
    """The colour is R, G, B when either side is RGB."""
    src, out = pic(RGB, 64, 64, noise(64, 64, 3)), pic(NV12, 64, 64)
    item = paste(out, region(0, 0, 64, 64), 16, 16, 32, 32)
    item.update(border_type=0, scalar_value={"val": [255.0, 0.0, 0.0, 0.0]})
    done(chn, acl.himpi.vpc_crop_resize_make_border(chn, src, [item], 1, FOREVER))
    luma, chroma = planes(out)
    near(luma[0, :1], np.array([0.299 * 255], np.uint8))
    near(chroma[0, 0], np.array([128 - 0.168 * 255, 255], np.uint8))


def test_a_batch_takes_its_crops_from_several_pictures(chn: int) -> None:
    datas = [noise(64, 64, seed=n) for n in range(3)]
    sources = [pic(GRAY, 64, 64, data) for data in datas]
    outs = [pic(GRAY, 40, 40, fill=3) for _ in range(4)]
    items = [paste(out, region(0, 0, 32, 32), 4, 4, 16, 16) for out in outs]
    done(chn, acl.himpi.vpc_batch_crop_resize_paste(chn, sources, 3, items, [1, 0, 3], FOREVER))
    for out, data in zip(outs, [datas[0], datas[2], datas[2], datas[2]], strict=True):
        want = np.full((40, 40), 3, np.uint8)
        want[4:20, 4:20] = cv2.resize(data[:32, :32], (16, 16))
        near(planes(out)[0], want)
    for item in items:
        item.update(border_type=0, scalar_value={"val": [9.0]})
    done(chn, acl.himpi.vpc_batch_crop_resize_make_border(chn, sources, 3, items, [1, 2, 1], FOREVER))
    for out, data in zip(outs, [datas[0], datas[1], datas[1], datas[2]], strict=True):
        want = np.full((40, 40), 9, np.uint8)
        want[4:20, 4:20] = cv2.resize(data[:32, :32], (16, 16))
        near(planes(out)[0], want)


@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [0, 1], [2, 1], [], [1 << 40, 1]])
def test_batches_that_do_not_fit(chn: int, counts: list[int]) -> None:
    sources, out = [pic(GRAY, 64, 64)] * 2, pic(GRAY, 40, 40)
    items = [paste(out, region(0, 0, 32, 32), 4, 4, 16, 16)] * 2
    for name in ("vpc_batch_crop_resize_paste", "vpc_batch_crop_resize_make_border"):
        assert getattr(acl.himpi, name)(chn, sources, 2, items, counts, 0) == (0, VPC | ILLEGAL_PARAM)
    with pytest.raises(TypeError):
        acl.himpi.vpc_batch_crop_resize_paste(chn, sources, 3, items, [1, 1], 0)


# ---- formats ---------------------------------------------------------------------------------------------------------


def full_range(luma: Array, u: Array, v: Array) -> Array:
    """BT.601 of full range, as the manual prints it."""
    y, u, v = luma.astype(float), u.astype(float) - 128, v.astype(float) - 128
    return np.stack([y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u], axis=2).clip(0, 255)


@pytest.mark.parametrize("form", [NV12, NV21])
def test_yuv_becomes_rgb(chn: int, form: int) -> None:
    whole, luma, chroma = nv12(64, 48)
    src, out = pic(form, 64, 48, whole), pic(RGB, 64, 48)
    done(chn, acl.himpi.vpc_convert_color(chn, src, out, FOREVER))
    wide = chroma.repeat(2, axis=0).repeat(2, axis=1)
    first, second = wide[:, :, 0], wide[:, :, 1]
    u, v = (first, second) if form == NV12 else (second, first)
    near(planes(out)[0], full_range(luma, u, v).round().astype(np.uint8))


def test_rgb_becomes_yuv(chn: int) -> None:
    data = np.empty((48, 64, 3), np.uint8)
    data[:] = (200, 100, 50)
    src, out = pic(RGB, 64, 48, data), pic(NV12, 64, 48)
    for call in (acl.himpi.vpc_convert_color, acl.himpi.vpc_convert_color_to_yuv420):
        done(chn, call(chn, src, out, FOREVER))
        luma, chroma = planes(out)
        near(luma, np.full_like(luma, int(0.299 * 200 + 0.587 * 100 + 0.114 * 50)))
        near(chroma[0, 0], np.array([128 - 0.168 * 200 - 0.331 * 100 + 25, 128 + 100 - 41.9 - 4.05], np.uint8))


def test_to_yuv420_writes_nothing_else(chn: int) -> None:
    src, out = pic(RGB, 64, 48), pic(BGR, 64, 48)
    assert acl.himpi.vpc_convert_color_to_yuv420(chn, src, out, 0) == (0, VPC | ILLEGAL_PARAM)


def test_alpha_is_the_value_that_was_asked_for(chn: int) -> None:
    data = noise(48, 64, 3)
    src, out = pic(RGB, 64, 48, data), pic(ARGB, 64, 48)
    done(chn, acl.himpi.vpc_convert_color_v2(chn, src, out, {"alpha": 77, "attr": [0] * 4}, FOREVER))
    result = planes(out)[0]
    assert (result[:, :, 0] == 77).all()
    assert (result[:, :, 1:] == data).all()
    assert acl.himpi.vpc_convert_color_v2(chn, src, out, {"alpha": 256}, 0) == (0, VPC | ILLEGAL_PARAM)


@pytest.mark.parametrize(("form", "order"), [(BGR, [2, 1, 0]), (RGB, [0, 1, 2])])
def test_orders_of_colours_are_exchanged(chn: int, form: int, order: list[int]) -> None:
    data = noise(48, 64, 3)
    src, out = pic(RGB, 64, 48, data), pic(form, 64, 48)
    done(chn, acl.himpi.vpc_convert_color(chn, src, out, FOREVER))
    assert (planes(out)[0] == data[:, :, order]).all()


def test_colours_are_put_into_planes(chn: int) -> None:
    data = noise(48, 64, 3)
    src, out = pic(RGB, 64, 48, data), pic(PLANAR_RGB, 64, 48)
    done(chn, acl.himpi.vpc_convert_color(chn, src, out, FOREVER))
    assert all((plane == data[:, :, index]).all() for index, plane in enumerate(planes(out)))


def test_yuyv_becomes_nv16(chn: int) -> None:
    packed = noise(48, 32, 4)  # y u y v
    src, out = pic(YUYV, 64, 48, packed), pic(NV16, 64, 48)
    done(chn, acl.himpi.vpc_convert_color(chn, src, out, FOREVER))
    luma, chroma = planes(out)
    assert (luma == packed[:, :, ::2].reshape(48, 64)).all()
    assert (chroma == packed[:, :, 1::2]).all()


def test_no_size_is_the_size_of_the_source(chn: int) -> None:
    data = noise(48, 64, 3)
    src, out = pic(RGB, 64, 48, data), pic(BGR, 64, 48)
    short = {key: out[key] for key in ("picture_address", "picture_buffer_size", "picture_format")}
    done(chn, acl.himpi.vpc_convert_color(chn, src, short, FOREVER))
    assert (planes(out)[0] == data[:, :, ::-1]).all()
    assert set(short) == {"picture_address", "picture_buffer_size", "picture_format"}


def test_converting_does_not_scale(chn: int) -> None:
    assert acl.himpi.vpc_convert_color(chn, pic(RGB, 64, 48), pic(BGR, 32, 48), 0) == (0, VPC | ILLEGAL_PARAM)


# ---- frames, pyramids, histograms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", range(5))
def test_borders_are_those_of_opencv(chn: int, kind: int) -> None:
    whole, luma, chroma = nv12(64, 48)
    src, out = pic(NV12, 64, 48, whole), pic(NV12, 84, 60)
    border = {
        "left": 8,
        "right": 12,
        "top": 4,
        "bottom": 8,
        "border_type": kind,
        "scalar_value": {"val": [1.0, 2.0, 3.0]},
    }
    done(chn, acl.himpi.vpc_copy_make_border(chn, src, out, border, FOREVER))
    results = planes(out)
    assert (results[0] == cv2.copyMakeBorder(luma, 4, 8, 8, 12, KINDS[kind], value=(1,))).all()
    assert (results[1] == cv2.copyMakeBorder(chroma, 2, 4, 4, 6, KINDS[kind], value=(2, 3))).all()


def test_borders_that_do_not_fit(chn: int) -> None:
    src, out = pic(GRAY, 64, 48), pic(GRAY, 84, 60)
    border = {"left": 8, "right": 13, "top": 4, "bottom": 8}
    assert acl.himpi.vpc_copy_make_border(chn, src, out, border, 0) == (0, VPC | ILLEGAL_PARAM)
    assert "85x60" in message()
    border = {"left": 8, "right": 12, "top": 4, "bottom": 8, "border_type": 5}
    assert acl.himpi.vpc_copy_make_border(chn, src, out, border, 0) == (0, VPC | ILLEGAL_PARAM)


def reduced(data: Array, kernel: Array, divisor: int) -> Array:
    wide = np.pad(data.astype(int), 2, mode="edge")
    rows, columns = data.shape
    total = sum(kernel[i, j] * wide[i : i + rows, j : j + columns] for i in range(5) for j in range(5))
    return np.clip(np.floor(np.asarray(total) / divisor + 0.5), 0, 255).astype(np.uint8)[::2, ::2]


def test_the_steps_of_a_pyramid_are_filtered_and_halved(chn: int) -> None:
    data = noise(64, 96)
    src, outs = pic(GRAY, 96, 64, data), [pic(GRAY, 48, 32), pic(GRAY, 24, 16)]
    border = {"top": 2, "bottom": 2, "left": 2, "right": 2, "border_type": 1}
    usual = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1])
    done(chn, acl.himpi.vpc_pyrdown(chn, src, outs, 2, None, 256, border, FOREVER))
    first = reduced(data, usual, 256)
    near(planes(outs[0])[0], first)
    near(planes(outs[1])[0], reduced(planes(outs[0])[0], usual, 256))
    kernel = [[0] * 5, [0, 1, 1, 1, 0], [0, 1, 8, 1, 0], [0, 1, 1, 1, 0], [0] * 5]
    done(chn, acl.himpi.vpc_pyrdown(chn, src, outs[:1], 1, kernel, 16, border, FOREVER))
    near(planes(outs[0])[0], reduced(data, np.array(kernel), 16))


def test_wrong_pyramids_are_refused(chn: int) -> None:
    src, out = pic(GRAY, 96, 64), pic(GRAY, 48, 32)
    border = {"border_type": 1}
    wrong = VPC | ILLEGAL_PARAM
    assert acl.himpi.vpc_pyrdown(chn, src, [out], 2, None, 256, border, 0) == (0, wrong)
    assert acl.himpi.vpc_pyrdown(chn, src, [], 0, None, 256, border, 0) == (0, wrong)
    assert acl.himpi.vpc_pyrdown(chn, src, [out], 1, [[1] * 5] * 5, 25, border, 0) == (0, wrong)
    assert acl.himpi.vpc_pyrdown(chn, src, [out], 1, None, 256, {"border_type": 3}, 0) == (0, wrong)
    for kernel in ([1, 2], [[1] * 5] * 4, [[1] * 4] * 5, [[1.0] * 5] * 5, [[200] * 5] * 5, "five"):
        with pytest.raises(TypeError):
            acl.himpi.vpc_pyrdown(chn, src, [out], 1, kernel, 32, border, 0)


def test_a_histogram_counts_every_value_of_each_plane(chn: int) -> None:
    whole, luma, chroma = nv12(64, 48)
    src, table = pic(NV12, 64, 48, whole), put(np.full(3072, 0xFF, np.uint8))
    done(chn, acl.himpi.vpc_calc_hist_v2(chn, src, FOREVER, table))
    counts = fetch(table, 3072).view(np.uint32).reshape(3, 256)
    assert (counts[0] == np.bincount(luma.ravel(), minlength=256)).all()
    assert (counts[1] == np.bincount(chroma[:, :, 0].ravel(), minlength=256)).all()
    assert (counts[2] == np.bincount(chroma[:, :, 1].ravel(), minlength=256)).all()
    assert acl.himpi.vpc_calc_hist_v2(chn, src, 0, 0) == (0, VPC | NULL_PTR)
    small = put(np.zeros(100, np.uint8))
    assert acl.himpi.vpc_calc_hist_v2(chn, src, 0, small) == (0, VPC | ILLEGAL_PARAM)


def test_the_old_histogram_only_warns(chn: int) -> None:
    with pytest.warns(Warning, match="vpc_calc_hist_v2"):
        histogram, task, ret = acl.himpi.vpc_calc_hist(chn, {}, 0)
    assert (task, ret) == (0, 0)
    keys = ("histogram_y_or_r", "histogram_u_or_g", "histogram_v_or_b")
    assert histogram == dict.fromkeys(keys, [0] * 256)


def test_equalising_looks_every_value_up(chn: int) -> None:
    data = noise(48, 64, 3)
    src, out = pic(BGR, 64, 48, data), pic(BGR, 64, 48)
    tables = noise(3, 256, seed=5)
    keys = ("map_value_y_or_r", "map_value_u_or_g", "map_value_v_or_b")
    lut = dict(zip(keys, tables.tolist(), strict=True))
    done(chn, acl.himpi.vpc_equalize_hist(chn, src, out, lut, FOREVER))
    want = np.stack([tables[2][data[:, :, 0]], tables[1][data[:, :, 1]], tables[0][data[:, :, 2]]], axis=2)
    assert (planes(out)[0] == want).all()


# ---- rules of the chips ----------------------------------------------------------------------------------------------


@pytest.fixture
def strict(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A channel of a 310P that refuses what the chip refuses."""
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend310P3")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.himpi.sys_init())
    ok(acl.himpi.vpc_create_chn(0, ATTR))
    yield 0
    ok(acl.finalize())


def test_a_strict_chip_refuses_strides_and_interpolations(strict: int) -> None:
    src, out = pic(GRAY, 64, 64, noise(64, 64)), pic(GRAY, 32, 32)
    done(strict, acl.himpi.vpc_resize(strict, src, out, 0, 0, 0, FOREVER))
    assert acl.himpi.vpc_resize(strict, src, pic(GRAY, 40, 32), 0, 0, 0, 0) == (0, VPC | ILLEGAL_PARAM)  # stride
    assert acl.himpi.vpc_resize(strict, src, out, 0, 0, 3, 0) == (0, VPC | ILLEGAL_PARAM)  # interpolation
    assert "310P" in message()


def test_a_strict_chip_refuses_small_and_unaligned_regions(strict: int) -> None:
    src, out = pic(GRAY, 64, 64), pic(GRAY, 96, 96)
    good = paste(out, region(1, 1, 20, 20), 16, 1, 16, 16)
    assert acl.himpi.vpc_crop_resize_paste(strict, src, [good], 1, FOREVER)[1] == 0
    for bad in (paste(out, region(1, 1, 20, 20), 8, 1, 16, 16), paste(out, region(1, 1, 8, 8), 16, 1, 16, 16)):
        assert acl.himpi.vpc_crop_resize_paste(strict, src, [bad], 1, 0) == (0, VPC | ILLEGAL_PARAM)


def test_a_strict_chip_refuses_functions_it_does_not_have(strict: int) -> None:
    pair = {"src": pic(GRAY, 64, 64), "dst": pic(GRAY, 64, 64)}
    assert acl.himpi.vpc_flip(strict, {**pair, "flip_mode": 0}, 0) == (0, VPC | NOT_SUPPORT)
    assert acl.himpi.vpc_get_lut_mem_size(64, 64) == (0, VPC | NOT_SUPPORT)


def test_a_chip_without_the_interface(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend310")
    for check, want in (("", 0), ("strict", VPC | NOT_SUPPORT)):
        monkeypatch.setenv("SOFTNPU_CHECK", check)
        ok(acl.init())
        ok(acl.rt.set_device(0))
        ok(acl.himpi.sys_init())
        assert acl.himpi.vpc_create_chn(0, ATTR) == want
        ok(acl.finalize())
