"""acl.himpi: the system, memory, event waiters, colour matrices, strides."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import acl
from softnpu.media.v2.sys.ready import Ready
from softnpu.media.v2.sys.system import need_system
from tests.faces.acl.media.v2.support import (
    BGR,
    EXIST,
    FOREVER,
    GRAY,
    ILLEGAL_PARAM,
    NOT_READY,
    NV12,
    RGB,
    SYS,
    UNEXIST,
    VPC,
    YUYV,
    descriptors,
    done,
    pic,
    planes,
)
from tests.support import in_thread, message, ok
from tests.waiting import eventually

ADD, MOD, DEL = 1, 2, 3
IN, OUT, ET = 1, 2, 0x80000000
JPEG = {"type": 26, "mode": 1, "pic_width": 640, "pic_height": 480, "stream_buf_size": 1 << 20}
NOTHING = {"events": 0, "data": 0}


@pytest.fixture
def decoder(himpi: None) -> Iterator[int]:
    """A channel that has a descriptor."""
    assert acl.himpi.vdec_create_chn(5, JPEG) == 0
    yield 5
    acl.himpi.vdec_destroy_chn(5)


def ready(chn: int) -> Ready:
    readiness: Ready = need_system("vdec").vdec.get(chn).ready
    return readiness


# ---- the system ------------------------------------------------------------------------------------------------------


def test_the_system_needs_a_device(fresh: None) -> None:
    assert acl.himpi.sys_init() == SYS | NOT_READY
    assert acl.himpi.sys_exit() == 0
    assert acl.init() == 0
    assert acl.himpi.sys_init() == SYS | NOT_READY
    assert acl.rt.set_device(0) == 0
    assert acl.himpi.sys_init() == 0
    assert acl.himpi.sys_init() == 0
    assert acl.himpi.sys_exit() == 0
    assert acl.finalize() == 0


def test_exit_closes_what_is_open(himpi: None) -> None:
    for number in range(4):
        ok(acl.himpi.vpc_create_chn(number, {}))
    epfd = ok(acl.himpi.sys_create_epoll(4))
    assert acl.himpi.sys_exit() == 0
    assert acl.himpi.vpc_destroy_chn(0) == VPC | NOT_READY
    assert acl.himpi.sys_close_epoll(epfd) == SYS | NOT_READY
    ok(acl.himpi.sys_init())
    assert acl.himpi.vpc_destroy_chn(0) == VPC | UNEXIST
    assert acl.himpi.sys_close_epoll(epfd) == SYS | UNEXIST


def test_finalize_ends_the_system(fresh: None) -> None:
    before = descriptors()
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.himpi.sys_init())
    ok(acl.himpi.vpc_create_chn(0, {}))
    ok(acl.himpi.vdec_create_chn(0, JPEG))
    assert acl.himpi.vdec_get_fd(0) >= 0
    ok(acl.himpi.sys_create_epoll(4))
    ok(acl.finalize())
    assert descriptors() == before
    assert acl.himpi.vpc_destroy_chn(0) == VPC | NOT_READY
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.himpi.vpc_create_chn(0, {}) == VPC | NOT_READY
    ok(acl.himpi.sys_init())
    assert acl.himpi.vpc_create_chn(0, {}) == 0
    ok(acl.finalize())


def test_resetting_a_device_closes_its_channels(himpi: None) -> None:
    ok(acl.himpi.vpc_create_chn(0, {}))
    ok(acl.rt.reset_device(0))
    assert acl.himpi.vpc_destroy_chn(0) == VPC | UNEXIST
    assert acl.himpi.vpc_create_chn(0, {}) == VPC | NOT_READY  # no device
    ok(acl.rt.set_device(0))
    assert acl.himpi.vpc_create_chn(0, {}) == 0


def test_no_descriptor_is_lost(himpi: None) -> None:
    before = descriptors()
    for _ in range(100):
        ok(acl.himpi.vpc_create_chn(0, {}))
        ok(acl.himpi.vdec_create_chn(0, JPEG))
        epfd, fd = ok(acl.himpi.sys_create_epoll(4)), acl.himpi.vdec_get_fd(0)
        ok(acl.himpi.sys_ctl_epoll(epfd, ADD, fd, {"events": IN, "data": fd}))
        ok(acl.himpi.sys_close_epoll(epfd))
        ok(acl.himpi.vdec_close_fd(0))
        ok(acl.himpi.vdec_destroy_chn(0))
        ok(acl.himpi.vpc_destroy_chn(0))
    assert descriptors() == before


def test_no_thread_is_lost(himpi: None) -> None:
    src, out = pic(GRAY, 2400, 2400), pic(GRAY, 2400, 2400)
    before = threading.active_count()
    for _ in range(20):
        ok(acl.himpi.vpc_create_chn(0, {}))
        done(0, acl.himpi.vpc_convert_color(0, src, out, FOREVER))
        ok(acl.himpi.vpc_destroy_chn(0))
    assert eventually(lambda: threading.active_count() <= before)


def test_a_process_that_ends_in_the_middle(tmp_path: Any) -> None:
    """Work under way, a waiter, an open channel: the interpreter ends at once and without a word."""
    program = """
import acl, threading
acl.init(); acl.rt.set_device(0); acl.himpi.sys_init(); acl.himpi.vpc_create_chn(0, {})
size = 4096 * 4096 * 3
src, out = (acl.himpi.dvpp_malloc(0, size)[0] for _ in range(2))
def info(address, side):
    return dict(picture_address=address, picture_buffer_size=size, picture_width=side, picture_height=side,
                picture_width_stride=side * 3, picture_height_stride=side, picture_format=12)
for _ in range(5):
    assert acl.himpi.vpc_resize(0, info(src, 4096), info(out, 4000), 0, 0, 0, 0)[1] == 0
epfd, ret = acl.himpi.sys_create_epoll(1)
threading.Thread(target=lambda: acl.himpi.sys_wait_epoll(epfd, 1, -1), daemon=True).start()
"""
    env = {**os.environ, "HOME": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", program], env=env, timeout=60, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "")


def test_the_version_has_three_numbers() -> None:
    major, minor, patch, ret = acl.himpi.dvpp_get_version()
    assert ret == 0
    assert all(isinstance(part, int) and part >= 0 for part in (major, minor, patch))


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_aligned_and_freed_once(himpi: None) -> None:
    address, ret = acl.himpi.dvpp_malloc(0, 1000)
    assert ret == 0 and address % 128 == 0
    assert acl.rt.memset(address, 1000, 5, 1000) == 0
    assert acl.himpi.dvpp_free(address) == 0
    assert acl.himpi.dvpp_free(address) == SYS | ILLEGAL_PARAM
    assert acl.himpi.dvpp_free(0) == SYS | ILLEGAL_PARAM
    assert acl.himpi.dvpp_malloc(0, 0) == (0, SYS | ILLEGAL_PARAM)
    assert acl.himpi.dvpp_malloc(0, 1 << 60) == (0, SYS | 12)
    assert acl.himpi.dvpp_malloc(99, 100) == (0, SYS | 1)
    device = ok(acl.rt.malloc(64, 0))
    assert acl.himpi.dvpp_free(device) == SYS | ILLEGAL_PARAM


def test_memory_of_a_thread_without_a_context(himpi: None) -> None:
    """The device is named, so no context is needed."""
    address, ret = in_thread(lambda: acl.himpi.dvpp_malloc(0, 100))
    assert ret == 0
    assert in_thread(lambda: acl.himpi.dvpp_free(address)) == 0


def test_memory_before_a_device_is_set(fresh: None) -> None:
    assert acl.himpi.dvpp_malloc(0, 100) == (0, SYS | NOT_READY)
    ok(acl.init())
    assert acl.himpi.dvpp_malloc(0, 100) == (0, SYS | NOT_READY)
    ok(acl.finalize())


# ---- event waiters ---------------------------------------------------------------------------------------------------


def test_a_waiter_tells_results_that_are_ready(decoder: int) -> None:
    epfd, fd = ok(acl.himpi.sys_create_epoll(10)), acl.himpi.vdec_get_fd(decoder)
    assert acl.himpi.sys_ctl_epoll(epfd, ADD, fd, {"events": IN, "data": 1 << 63}) == 0
    assert acl.himpi.sys_wait_epoll(epfd, 3, 0) == ([NOTHING] * 3, 0, 0)
    ready(decoder).set()
    want = [{"events": IN, "data": 1 << 63}, NOTHING, NOTHING]
    assert acl.himpi.sys_wait_epoll(epfd, 3, FOREVER) == (want, 1, 0)
    assert acl.himpi.sys_wait_epoll(epfd, 3, 1000) == (want, 1, 0)  # as long as it is ready
    ready(decoder).clear()
    assert acl.himpi.sys_wait_epoll(epfd, 3, 10) == ([NOTHING] * 3, 0, 0)
    assert acl.himpi.sys_ctl_epoll(epfd, MOD, fd, {"events": IN, "data": 7}) == 0
    ready(decoder).set()
    assert acl.himpi.sys_wait_epoll(epfd, 1, 0) == ([{"events": IN, "data": 7}], 1, 0)
    assert acl.himpi.sys_ctl_epoll(epfd, DEL, fd, {}) == 0
    assert acl.himpi.sys_wait_epoll(epfd, 1, 0) == ([NOTHING], 0, 0)
    assert acl.himpi.sys_close_epoll(epfd) == 0


def test_with_the_edge_flag_a_result_is_told_once(decoder: int) -> None:
    """With the edge flag a result is told once; a further result is told again."""
    epfd, fd = ok(acl.himpi.sys_create_epoll(10)), acl.himpi.vdec_get_fd(decoder)
    ok(acl.himpi.sys_ctl_epoll(epfd, ADD, fd, {"events": IN | ET, "data": 7}))
    ready(decoder).set()
    assert acl.himpi.sys_wait_epoll(epfd, 1, 1000)[1] == 1
    assert acl.himpi.sys_wait_epoll(epfd, 1, 0)[1] == 0
    ready(decoder).set()
    assert acl.himpi.sys_wait_epoll(epfd, 1, 1000)[1] == 1


def test_a_waiter_tells_that_there_is_room_for_input(decoder: int) -> None:
    epfd, fd = ok(acl.himpi.sys_create_epoll(10)), acl.himpi.vdec_get_fd(decoder)
    ok(acl.himpi.sys_ctl_epoll(epfd, ADD, fd, {"events": IN | OUT, "data": 7}))
    assert acl.himpi.sys_wait_epoll(epfd, 1, 0) == ([{"events": OUT, "data": 7}], 1, 0)


def test_the_descriptor_works_with_select_and_poll(decoder: int) -> None:
    fd = acl.himpi.vdec_get_fd(decoder)
    assert fd == acl.himpi.vdec_get_fd(decoder)
    assert select.select([fd], [], [], 0)[0] == []
    ready(decoder).set()
    assert select.select([fd], [], [], 0)[0] == [fd]
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(0) == [(fd, select.POLLIN)]


def test_a_channel_that_was_ready_before(decoder: int) -> None:
    ready(decoder).set()
    fd = acl.himpi.vdec_get_fd(decoder)
    assert select.select([fd], [], [], 0)[0] == [fd]
    assert acl.himpi.vdec_close_fd(decoder) == 0
    assert select.select([acl.himpi.vdec_get_fd(decoder)], [], [], 0)[0] != []


def test_waiting_lets_other_threads_run(decoder: int) -> None:
    epfd, fd = ok(acl.himpi.sys_create_epoll(10)), acl.himpi.vdec_get_fd(decoder)
    ok(acl.himpi.sys_ctl_epoll(epfd, ADD, fd, {"events": IN, "data": 7}))
    threading.Timer(0.1, ready(decoder).set).start()
    assert in_thread(lambda: acl.himpi.sys_wait_epoll(epfd, 1, FOREVER))[1] == 1


def test_closing_wakes_who_waits(himpi: None) -> None:
    assert acl.himpi.sys_close_epoll(-1) == SYS | UNEXIST  # the log file is open from here on
    before = descriptors()
    epfd = ok(acl.himpi.sys_create_epoll(10))
    threading.Timer(0.1, lambda: (acl.himpi.sys_close_epoll(epfd), None)[1]).start()
    assert in_thread(lambda: acl.himpi.sys_wait_epoll(epfd, 2, FOREVER)) == ([NOTHING] * 2, 0, SYS | UNEXIST)
    assert descriptors() == before


def test_more_ready_than_asked_for(himpi: None) -> None:
    epfd = ok(acl.himpi.sys_create_epoll(10))
    for number in range(4):
        ok(acl.himpi.vdec_create_chn(number, JPEG))
        ok(acl.himpi.sys_ctl_epoll(epfd, ADD, acl.himpi.vdec_get_fd(number), {"events": IN, "data": number}))
        ready(number).set()
    events, count, ret = acl.himpi.sys_wait_epoll(epfd, 2, 0)
    assert (len(events), count, ret) == (2, 2, 0)
    events, count, ret = acl.himpi.sys_wait_epoll(epfd, 8, 0)
    assert sorted(event["data"] for event in events[:count]) == [0, 1, 2, 3]
    ok(acl.himpi.vdec_destroy_chn(2))
    events, count, ret = acl.himpi.sys_wait_epoll(epfd, 8, 0)
    assert sorted(event["data"] for event in events[:count]) == [0, 1, 3]


def test_wrong_arguments_of_waiters_are_refused(decoder: int) -> None:
    epfd, fd = ok(acl.himpi.sys_create_epoll(1)), acl.himpi.vdec_get_fd(decoder)
    himpi, event = acl.himpi, {"events": IN, "data": 1}
    assert himpi.sys_create_epoll(0) == (0, SYS | ILLEGAL_PARAM)
    assert himpi.sys_create_epoll(-5) == (0, SYS | ILLEGAL_PARAM)
    assert himpi.sys_ctl_epoll(epfd, 9, fd, event) == SYS | ILLEGAL_PARAM
    assert himpi.sys_ctl_epoll(epfd, ADD, -1, event) == SYS | ILLEGAL_PARAM
    assert himpi.sys_ctl_epoll(epfd, ADD, 0, event) == SYS | ILLEGAL_PARAM  # no channel's
    assert himpi.sys_ctl_epoll(epfd, ADD, epfd, event) == SYS | ILLEGAL_PARAM
    assert himpi.sys_ctl_epoll(epfd, MOD, fd, event) == SYS | UNEXIST
    assert himpi.sys_ctl_epoll(epfd, DEL, fd, event) == SYS | UNEXIST
    assert himpi.sys_ctl_epoll(epfd, DEL, 123456, event) == SYS | UNEXIST
    assert himpi.sys_ctl_epoll(epfd, ADD, fd, event) == 0
    assert himpi.sys_ctl_epoll(epfd, ADD, fd, event) == SYS | EXIST
    assert himpi.sys_ctl_epoll(fd, ADD, fd, event) == SYS | UNEXIST
    assert himpi.sys_wait_epoll(fd, 1, 0) == ([NOTHING], 0, SYS | UNEXIST)
    assert himpi.sys_wait_epoll(epfd, 0, 0) == ([], 0, SYS | ILLEGAL_PARAM)
    assert himpi.sys_close_epoll(fd) == SYS | UNEXIST
    assert message()
    for most in (-1, 4097):
        with pytest.raises(TypeError):
            himpi.sys_wait_epoll(epfd, most, 0)
    assert himpi.sys_close_epoll(epfd) == 0
    assert himpi.sys_close_epoll(epfd) == SYS | UNEXIST
    assert himpi.sys_wait_epoll(epfd, 1, 0) == ([NOTHING], 0, SYS | UNEXIST)


# ---- colour matrices -------------------------------------------------------------------------------------------------


def coefficients(cells: Any, biases: Any) -> dict[str, float]:
    flat = np.asarray(cells, float).reshape(3, 3)
    named = {f"csc_matrix_r{row}_c{column}": float(flat[row, column]) for row in range(3) for column in range(3)}
    return named | {f"csc_bias_r{row}": float(value) for row, value in enumerate(biases)}


# Coefficients of Y - offset, U - 128 and V - 128, from the standards: (offset of Y, luma, R of V, G of U, G of V, B of U).
STANDARDS = {
    0: (0, 1.0, 1.402, -0.344, -0.714, 1.772),
    1: (16, 1.16438, 1.59602, -0.39176, -0.81297, 2.01723),
    2: (0, 1.0, 1.5748, -0.1873, -0.4681, 1.8556),
    3: (16, 1.16438, 1.79274, -0.21325, -0.53291, 2.11240),
    4: (0, 1.0, 1.4746, -0.16455, -0.57135, 1.8814),
    5: (16, 1.16438, 1.67867, -0.18733, -0.65042, 2.14177),
}


@pytest.mark.parametrize("number", STANDARDS)
def test_matrices_are_those_of_the_standards(chn: int, number: int) -> None:
    offset, luma, rv, gu, gv, bu = STANDARDS[number]
    assert acl.himpi.sys_set_chn_csc_matrix(7, chn, number, {}) == 0
    number_read, values, ret = acl.himpi.sys_get_chn_csc_matrix(7, chn)
    assert (number_read, ret) == (number, 0)
    want = coefficients([luma, 0, rv, luma, gu, gv, luma, bu, 0], [offset, 128, 128])
    assert values["yuv_to_rgb_coefficient"] == pytest.approx(want, abs=1e-4)
    src, out = colour_pictures()
    done(chn, acl.himpi.vpc_convert_color(chn, src, out, FOREVER))
    y, u, v = luma * (120 - offset), 100 - 128, 180 - 128
    rgb = np.array([y + rv * v, y + gu * u + gv * v, y + bu * u]).clip(0, 255)
    assert np.abs(planes(out)[0].reshape(-1, 3) - rgb).max() <= 1


def colour_pictures() -> tuple[dict[str, Any], dict[str, Any]]:
    data = np.full(64 * 48 * 3 // 2, 120, np.uint8)
    data[64 * 48 :: 2], data[64 * 48 + 1 :: 2] = 100, 180
    return pic(NV12, 64, 48, data), pic(RGB, 64, 48)


def test_a_matrix_of_ones_own_is_used_both_ways(chn: int) -> None:
    """RGB = M (YUV - bias), YUV = M RGB + bias."""
    back = coefficients([1, 0, 0.5, 1, 0.25, 0, 0.5, 0, 0], [20, 60, 100])
    forth = coefficients(np.eye(3) * 0.5, [1, 2, 3])
    coefficients_given = {"yuv_to_rgb_coefficient": back, "rgb_to_yuv_coefficient": forth}
    assert acl.himpi.sys_set_chn_csc_matrix(7, chn, 100, coefficients_given) == 0
    assert acl.himpi.sys_get_chn_csc_matrix(7, chn) == (100, coefficients_given, 0)
    src, out = colour_pictures()
    done(chn, acl.himpi.vpc_convert_color(chn, src, out, FOREVER))
    assert np.abs(planes(out)[0].reshape(-1, 3) - (100 + 40, 100 + 10, 50)).max() <= 1
    done(
        chn,
        acl.himpi.vpc_convert_color(chn, pic(BGR, 64, 48, np.full((48, 64, 3), (10, 20, 30), np.uint8)), src, FOREVER),
    )
    luma, chroma = planes(src)
    assert np.abs(luma - 16.0).max() <= 1 and np.abs(chroma - np.array([12.0, 8.0])).max() <= 1


def test_channels_begin_with_full_range(chn: int, decoder: int) -> None:
    for module, number in ((7, chn), (5, decoder)):
        number_read, values, ret = acl.himpi.sys_get_chn_csc_matrix(module, number)
        assert (number_read, ret) == (0, 0)
        assert values["yuv_to_rgb_coefficient"]["csc_matrix_r0_c2"] == pytest.approx(1.402)
    assert acl.himpi.sys_set_chn_csc_matrix(5, decoder, 3, {}) == 0
    assert acl.himpi.sys_get_chn_csc_matrix(5, decoder)[0] == 3
    assert acl.himpi.sys_get_chn_csc_matrix(7, chn)[0] == 0


def test_wrong_matrices_are_refused(chn: int) -> None:
    himpi, wrong = acl.himpi, SYS | ILLEGAL_PARAM
    number, zeros, ret = himpi.sys_get_chn_csc_matrix(8, chn)
    assert (number, ret) == (0, wrong)
    assert set(zeros) == {"yuv_to_rgb_coefficient", "rgb_to_yuv_coefficient"}
    assert zeros["yuv_to_rgb_coefficient"] == coefficients([0] * 9, [0] * 3)
    assert himpi.sys_set_chn_csc_matrix(8, chn, 0, {}) == wrong
    assert himpi.sys_set_chn_csc_matrix(7, 99, 0, {}) == VPC | UNEXIST
    assert himpi.sys_set_chn_csc_matrix(7, chn, 6, {}) == wrong
    assert himpi.sys_set_chn_csc_matrix(7, chn, -1, {}) == wrong
    nan = {"yuv_to_rgb_coefficient": coefficients([float("nan")] * 9, [0] * 3)}
    assert himpi.sys_set_chn_csc_matrix(7, chn, 100, nan) == wrong
    assert himpi.sys_get_chn_csc_matrix(7, chn)[0] == 0
    with pytest.raises(TypeError):
        himpi.sys_set_chn_csc_matrix(7, chn, 100, {"yuv_to_rgb_coefficient": [1.0]})


# ---- strides ---------------------------------------------------------------------------------------------------------


def base(width: int, height: int, form: int) -> dict[str, Any]:
    return {"width": width, "height": height, "pixel_format": form, "reserved": [0, 0]}


@pytest.mark.parametrize(
    ("soc", "modules", "form", "want"),
    [
        ("Ascend310P3", [0], NV12, (112, 50, 112 * 50 * 3 // 2)),
        ("Ascend310P3", [0], RGB, (336, 49, 336 * 49)),
        ("Ascend310P3", [0, 4], NV12, (128, 64, 128 * 64 * 3 // 2)),
        ("Ascend310P3", [0, 5], RGB, (384, 64, 384 * 64)),
        ("Ascend310P3", [100], YUYV, (256, 64, 256 * 64)),
        ("Ascend310B4", [0], NV12, (101, 50, 101 * 50 * 3 // 2)),
        ("Ascend310B4", [0, 3], NV12, (112, 50, 112 * 50 * 3 // 2)),
        ("Ascend310B4", [4], NV12, (128, 64, 128 * 64 * 3 // 2)),
        ("Ascend310B4", [2], RGB, (303, 50, 303 * 50)),
    ],
)
def test_strides_are_those_of_the_modules_together(
    fresh: None, monkeypatch: pytest.MonkeyPatch, soc: str, modules: list[int], form: int, want: Any
) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", soc)
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.himpi.sys_init())
    align_info, ret = acl.himpi.sys_get_image_align_info(modules, len(modules), base(101, 49, form))
    assert ret == 0
    assert align_info == dict(zip(("width_stride", "height_stride", "img_buf_size"), want, strict=True)) | {
        "reserved": [0, 0]
    }
    ok(acl.finalize())


def test_wrong_arguments_for_strides_are_refused(himpi: None) -> None:
    zeros = {"width_stride": 0, "height_stride": 0, "img_buf_size": 0, "reserved": [0, 0]}
    call, wrong = acl.himpi.sys_get_image_align_info, SYS | ILLEGAL_PARAM
    assert call([], 0, base(100, 50, NV12)) == (zeros, wrong)
    assert call([9], 1, base(100, 50, NV12)) == (zeros, wrong)
    assert call([0], 1, base(0, 50, NV12)) == (zeros, wrong)
    assert call([0], 1, base(100, 1 << 31, NV12)) == (zeros, wrong)
    assert call([0], 1, base(100, 50, 12345)) == (zeros, wrong)
    with pytest.raises(TypeError):
        call([0, 1], 1, base(100, 50, NV12))
    with pytest.raises(TypeError):
        call([0], 1, {"width": 100, "height": 50, "pixel_format": 1})
    with pytest.raises(ValueError, match="reserved"):
        call([0], 1, {**base(100, 50, NV12), "reserved": [0]})


def test_a_waiter_takes_no_strange_time(himpi: None) -> None:
    waiter, ret = acl.himpi.sys_create_epoll(4)
    assert ret == 0
    _, count, ret = acl.himpi.sys_wait_epoll(waiter, 3, -2)
    assert (count, ret) == (0, 0xA0028003)
    assert acl.himpi.sys_wait_epoll(waiter, 3, 0)[1:] == (0, 0)
    assert acl.himpi.sys_close_epoll(waiter) == 0
