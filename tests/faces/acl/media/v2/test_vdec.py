"""Video decoding of acl.himpi, against FFmpeg."""

from __future__ import annotations

import select
import threading
from typing import Any

import cv2
import numpy as np
import pytest

import acl
from tests.faces.acl.media.v1.video_support import reference, video
from tests.faces.acl.media.v2.coder_support import (
    H264,
    H265,
    JPEG,
    LIMIT_MS,
    NV12,
    NV21,
    PAYLOAD,
    RGB,
    VDEC,
    Got,
    blocked,
    channel_attr,
    flush,
    open_decoder,
    output,
    packet,
    send,
    used,
    woken,
)
from tests.faces.acl.media.v2.support import descriptors
from tests.support import WAIT, in_thread, message, ok

pytestmark = pytest.mark.usefixtures("himpi")
W, H = 160, 128
SIZE = W * H * 3 // 2


def decode(chn: int, packets: tuple[bytes, ...], size: int = SIZE, **more: Any) -> list[Got]:
    """Send everything, then take everything."""
    for number, data in enumerate(packets):
        assert send(chn, data, size, number, **more) == 0
    flush(chn)
    return [Got(chn) for _ in packets]


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_frames_are_those_of_ffmpeg(codec: str, b_frames: int) -> None:
    packets = video(codec, 16, W, H, b_frames)
    open_decoder(0, PAYLOAD[codec], W, H)
    frames = decode(0, packets)
    for frame, (number, picture) in zip(frames, reference(codec, packets), strict=True):
        assert (frame.flag, frame.pts) == (0, number)
        assert np.array_equal(frame.nv12(), picture)
    assert acl.himpi.vdec_get_frame(0, 0)[3] == VDEC + 14
    ok(acl.himpi.vdec_stop_recv_stream(0))
    ok(acl.himpi.vdec_destroy_chn(0))


def test_a_frame_tells_everything() -> None:
    data = video("h264", 1, W, H)[0]
    open_decoder(7, H264, W, H)
    stream = packet(data, 123456789012, private_data=77)
    picture = output(192 * 130 * 3 // 2, width_stride=192, height_stride=130)
    ok(acl.himpi.vdec_send_stream(7, stream, picture, 0))
    flush(7)
    got = Got(7, keep=True)
    shown, start = got.frame, picture["vir_addr"]
    assert (shown["width"], shown["height"], shown["pixel_format"], shown["field"]) == (W, H, NV12, 4)
    assert shown["width_stride"] == [192, 192, 0] and shown["height_stride"] == [130, 65, 0]
    assert shown["virt_addr"] == shown["phys_addr"] == [start, start + 192 * 130, 0]
    assert (shown["pts"], shown["frame_flag"], shown["user_data"][0]) == (123456789012, 0, 77)
    assert got.info["mod_id"] == 5
    assert got.supplement["type"] == H264 and got.supplement["video_supplement_info"]["frame_type"] == 0
    assert got.stream == stream
    assert np.array_equal(got.nv12(), reference("h264", (data,))[0][1])


def test_nothing_ready_has_every_key() -> None:
    open_decoder(0, H264, W, H)
    info, supplement, stream, ret = acl.himpi.vdec_get_frame(0, 0)
    assert ret == VDEC + 14
    assert info["v_frame"]["virt_addr"] == [0, 0, 0] and info["v_frame"]["supplement"]["isp_info_virt_addr"] == 0
    assert supplement["video_supplement_info"] == {"frame_type": 0, "err_rate": 0, "poc": 0}
    assert stream == dict.fromkeys(stream, 0) and set(stream) == set(packet(b""))
    assert acl.himpi.vdec_get_frame(9, 0)[3] == VDEC + 5
    assert set(acl.himpi.vdec_get_frame(9, 0)[0]) == {"v_frame", "pool_id", "mod_id"}


def test_the_other_order_of_chroma() -> None:
    packets = video("h264", 2, W, H)
    open_decoder(0, H264, W, H)
    frames = decode(0, packets, pixel_format=NV21)
    for frame, (_, picture) in zip(frames, reference("h264", packets), strict=True):
        swapped = picture[H:].reshape(H // 2, W // 2, 2)[..., ::-1].reshape(H // 2, W)
        assert np.array_equal(frame.nv12(), np.concatenate([picture[:H], swapped]))


def test_rgb_is_full_range_601() -> None:
    packets = video("h264", 1, W, H)
    open_decoder(0, H264, W, H)
    (frame,) = decode(0, packets, W * H * 3, pixel_format=RGB)
    picture = reference("h264", packets)[0][1].astype(np.float64)
    chroma = picture[H:].reshape(H // 2, W // 2, 2).repeat(2, 0).repeat(2, 1) - 128
    y, u, v = picture[:H], chroma[..., 0], chroma[..., 1]
    wanted = np.stack([y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u], -1).clip(0, 255)
    pixels = np.frombuffer(frame.data, np.uint8).reshape(H, W, 3)
    assert frame.frame["width_stride"] == [W * 3, 0, 0]
    assert np.abs(pixels - wanted).max() <= 2


def test_another_size_is_scaled_as_opencv_does() -> None:
    packets = video("h264", 2, W, H)
    open_decoder(0, H264, W, H)
    frames = decode(0, packets, 96 * 80 * 3 // 2, width=96, height=80, width_stride=96, height_stride=80)
    for frame, (_, picture) in zip(frames, reference("h264", packets), strict=True):
        luma = cv2.resize(picture[:H], (96, 80), interpolation=cv2.INTER_LINEAR)
        chroma = cv2.resize(picture[H:].reshape(H // 2, W // 2, 2), (48, 40), interpolation=cv2.INTER_LINEAR)
        wanted = np.concatenate([luma, chroma.reshape(40, 96)])
        assert np.abs(frame.nv12().astype(int) - wanted).max() <= 1


@pytest.mark.parametrize(("room", "stride"), [(176 * 130 * 3 // 2, 176), (162 * 130 * 3 // 2, 162)])
def test_strides_of_zero_are_those_of_the_chip_where_they_fit(room: int, stride: int) -> None:
    packets = video("h264", 1, 162, 130)
    open_decoder(0, H264, 162, 130)
    (frame,) = decode(0, packets, room)
    aligned = frame.frame["width_stride"][0]
    assert aligned in (stride, 162) and frame.frame["height_stride"][0] == 130
    assert np.array_equal(frame.nv12(), reference("h264", packets)[0][1])


def test_ten_bits_become_eight() -> None:
    packets = video("hevc", 2, W, H, form="yuv420p10le")
    open_decoder(0, H265, W, H)
    frames = decode(0, packets)
    for frame, (_, picture) in zip(frames, reference("hevc", packets, "yuv420p10le"), strict=True):
        luma = picture[:H, :W] if picture.dtype == np.uint16 else picture[:H]
        assert frame.frame["dynamic_range"] == 1
        assert np.abs(frame.nv12()[:H].astype(float) - luma / 4).max() <= 1


def test_the_order_of_decoding() -> None:
    packets = video("hevc", 10, W, H, 2)
    open_decoder(0, H265, W, H, {"out_order": 1})
    frames = decode(0, packets)
    assert [frame.pts for frame in frames] == list(range(10))
    pictures = dict(reference("hevc", packets))
    assert all(np.array_equal(frame.nv12(), pictures[frame.pts]) for frame in frames)


def test_only_key_pictures_are_decoded_when_asked() -> None:
    packets = video("h264", 14, W, H)
    open_decoder(0, H264, W, H, {"dec_mode": 2})
    frames = decode(0, packets)
    assert [frame.pts for frame in frames if frame.flag == 0] == [0, 12]
    assert {frame.flag for frame in frames} == {0, 2}


def test_without_display_the_packet_comes_back() -> None:
    packets = video("h264", 3, W, H)
    open_decoder(0, H264, W, H)
    for number, data in enumerate(packets):
        if number == 1:
            stream = packet(data, number, need_display=0)
            ok(acl.himpi.vdec_send_stream(0, stream, {}, LIMIT_MS))
        else:
            assert send(0, data, SIZE, number) == 0
    flush(0)
    frames = [Got(0) for _ in packets]
    assert [frame.flag for frame in frames] == [0, 0, 0]
    assert (
        frames[1].address == 0 and frames[1].stream["need_display"] == 0 and frames[1].stream["addr"] == stream["addr"]
    )
    assert np.array_equal(frames[2].nv12(), reference("h264", packets)[2][1])


def test_a_stream_after_the_end_of_another() -> None:
    first, second = video("h264", 4, W, H, 2), video("h264", 3, 176, 144)
    open_decoder(0, H264, 176, 144)
    for packets in (first, second, first):
        frames = decode(0, packets, 176 * 144 * 3 // 2)
        assert all(np.array_equal(a.nv12(), b) for a, (_, b) in zip(frames, reference("h264", packets), strict=True))


def test_a_last_packet_with_data_flushes() -> None:
    packets = video("h264", 5, W, H, 2)
    open_decoder(0, H264, W, H)
    for number, data in enumerate(packets):
        stream = packet(data, number, end_of_stream=int(number == 4))
        ok(acl.himpi.vdec_send_stream(0, stream, output(SIZE), LIMIT_MS))
    assert len([Got(0) for _ in packets]) == 5


def test_stopping_gives_everything_back() -> None:
    packets = video("h264", 6, W, H, 2)
    open_decoder(0, H264, W, H)
    for data in packets:
        assert send(0, data, SIZE) == 0
    ok(acl.himpi.vdec_stop_recv_stream(0))
    assert send(0, packets[0], SIZE, ms=0) == VDEC + 9
    assert len([Got(0) for _ in packets]) == 6
    ok(acl.himpi.vdec_start_recv_stream(0))
    assert len(decode(0, packets)) == 6


def test_damage_costs_its_own_frame_only() -> None:
    packets = list(video("h264", 4, W, H))
    packets[1] = b"no start code, no video" * 10
    open_decoder(0, H264, W, H)
    frames = decode(0, tuple(packets))
    flags = {frame.pts: frame.flag for frame in frames}
    assert flags[0] == 0 and flags[1] == 1
    status = ok(acl.himpi.vdec_query_status(0))
    assert status["dec_err"]["format_err"] >= 1


def test_a_small_output_is_a_failed_frame() -> None:
    packets = video("h264", 2, W, H)
    open_decoder(0, H264, W, H)
    assert send(0, packets[0], 1000) == 0
    assert send(0, packets[1], SIZE) == 0
    flush(0)
    assert [Got(0).flag, Got(0).flag] == [1, 0]
    assert ok(acl.himpi.vdec_query_status(0))["dec_err"]["set_pic_buf_size_err"] == 1


def test_memory_that_is_freed_too_early_is_a_failed_frame() -> None:
    packets = video("h264", 4, W, H, 2)
    open_decoder(0, H264, W, H)
    picture = output(SIZE)
    ok(acl.himpi.vdec_send_stream(0, packet(packets[0]), picture, 0))
    ok(acl.himpi.dvpp_free(picture["vir_addr"]))
    flush(0)
    info, _, _, ret = acl.himpi.vdec_get_frame(0, LIMIT_MS)
    assert ret == 0 and info["v_frame"]["frame_flag"] in (0, 1)


def test_the_status_counts_packets_and_pictures() -> None:
    packets = video("h264", 5, W, H)
    open_decoder(0, H264, W, H)
    before = ok(acl.himpi.vdec_query_status(0))
    assert before["is_started"] == 1 and before["recv_stream_frames"] == 0 and before["type"] == H264
    for number, data in enumerate(packets):
        assert send(0, data, SIZE, number) == 0
    flush(0)
    Got(0)
    last = [Got(0) for _ in range(4)][-1]
    status = ok(acl.himpi.vdec_query_status(0))
    assert (status["recv_stream_frames"], status["dec_stream_frames"], status["left_decoded_frames"]) == (5, 5, 0)
    assert (status["left_stream_bytes"], status["left_stream_frames"]) == (0, 0)
    assert (status["width"], status["height"], status["latest_frame_pts"]) == (W, H, last.pts)


# ---- waiting ---------------------------------------------------------------------------------------------------------


def test_the_descriptor_is_readable_when_a_frame_is_ready() -> None:
    open_decoder(0, H264, W, H)
    fd = acl.himpi.vdec_get_fd(0)
    assert fd >= 0 and select.select([fd], [], [], 0)[0] == []
    packets = video("h264", 2, W, H)
    for data in packets:
        assert send(0, data, SIZE) == 0
    flush(0)
    assert select.select([fd], [], [], WAIT)[0] == [fd]
    Got(0), Got(0)
    assert select.select([fd], [], [], 0)[0] == []
    ok(acl.himpi.vdec_close_fd(0))
    assert acl.himpi.vdec_get_fd(5) == -1


def test_epoll_with_two_channels() -> None:
    data = video("h264", 1, W, H)[0]
    epoll = ok(acl.himpi.sys_create_epoll(2))
    for chn in (0, 1):
        open_decoder(chn, H264, W, H)
        fd = acl.himpi.vdec_get_fd(chn)
        ok(acl.himpi.sys_ctl_epoll(epoll, 1, fd, {"events": 1, "data": 100 + chn}))
    assert send(1, data, SIZE) == 0
    flush(1)
    events, count = ok(acl.himpi.sys_wait_epoll(epoll, 3, LIMIT_MS))
    assert count == 1 and events[0]["data"] == 101
    assert Got(1).flag == 0
    assert ok(acl.himpi.sys_wait_epoll(epoll, 3, 0))[1] == 0
    ok(acl.himpi.sys_close_epoll(epoll))


def test_destroying_wakes_who_waits() -> None:
    open_decoder(0, H264, W, H)
    thread, answers = blocked(lambda: acl.himpi.vdec_get_frame(0, -1))
    thread.join(0.1)
    assert not answers
    ok(acl.himpi.vdec_destroy_chn(0))
    woken(thread)
    assert answers[0][3] == VDEC + 5


def test_resetting_wakes_who_waits() -> None:
    open_decoder(0, H264, W, H)
    ok(acl.himpi.vdec_stop_recv_stream(0))
    thread, answers = blocked(lambda: acl.himpi.vdec_get_frame(0, -1))
    thread.join(0.1)
    ok(acl.himpi.vdec_reset_chn(0))
    woken(thread)
    assert answers[0][3] == VDEC + 5
    ok(acl.himpi.vdec_start_recv_stream(0))
    assert len(decode(0, video("h264", 2, W, H))) == 2


def fill_up(chn: int, data: bytes) -> int:
    """Send into one buffer until the channel takes no more; how many it took."""
    stream, picture = packet(data), output(SIZE)
    for count in range(5000):
        ret = acl.himpi.vdec_send_stream(chn, stream, picture, 0)
        if ret:
            assert ret == VDEC + 15
            return count
    raise AssertionError("the channel takes everything")


def test_a_full_channel_says_so_and_goes_on() -> None:
    data = video("h264", 1, W, H)[0]
    open_decoder(0, H264, W, H, stream_buf_size=len(data) * 3)
    assert fill_up(0, data) >= 3
    stream, picture = packet(data), output(SIZE)
    assert acl.himpi.vdec_send_stream(0, stream, picture, 0) in (0, VDEC + 15)
    taken = 0
    while acl.himpi.vdec_get_frame(0, 200)[3] == 0:
        taken += 1
    assert taken >= 3
    ok(acl.himpi.vdec_send_stream(0, stream, picture, LIMIT_MS))


@pytest.mark.parametrize(("end", "code"), [("vdec_stop_recv_stream", 9), ("vdec_destroy_chn", 5)])
def test_ending_a_full_channel_wakes_the_sender(end: str, code: int) -> None:
    data = video("h264", 1, W, H)[0]
    open_decoder(0, H264, W, H, stream_buf_size=len(data) * 2)
    stream, picture = packet(data), output(SIZE)
    answers: list[int] = []

    def run() -> None:  # nobody takes frames: some send waits for ever
        while not answers:
            ret = acl.himpi.vdec_send_stream(0, stream, picture, -1)
            if ret:
                answers.append(ret)

    thread, _ = blocked(run)
    status = {"left_decoded_frames": -1}
    for _ in range(200):
        before, status = status, ok(acl.himpi.vdec_query_status(0))
        thread.join(0.05)
        if status["left_decoded_frames"] == before["left_decoded_frames"] and status["left_stream_bytes"] > len(data):
            break
    ok(getattr(acl.himpi, end)(0))
    woken(thread)
    assert answers == [VDEC + code]


def test_channels_run_side_by_side() -> None:
    packets = video("h264", 12, W, H, 2)
    wanted = reference("h264", packets)
    context = ok(acl.rt.get_context())

    def run(chn: int) -> list[bool]:
        ok(acl.rt.set_context(context))
        open_decoder(chn, H264, W, H)
        frames = decode(chn, packets)
        ok(acl.himpi.vdec_destroy_chn(chn))
        return [np.array_equal(frame.nv12(), picture) for frame, (_, picture) in zip(frames, wanted, strict=True)]

    results: list[list[bool]] = []
    threads = [threading.Thread(target=lambda n=n: results.append(run(n)), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        woken(thread)
    assert len(results) == 4 and all(map(all, results))


def test_two_threads_share_a_channel() -> None:
    packets = video("h264", 30, W, H, 2)
    open_decoder(0, H264, W, H)

    def feed() -> None:
        for number, data in enumerate(packets):
            assert send(0, data, SIZE, number) == 0
        flush(0)

    thread, _ = blocked(feed)
    frames = [Got(0) for _ in packets]
    woken(thread)
    assert [frame.pts for frame in frames] == [number for number, _ in reference("h264", packets)]


def test_nothing_is_left_behind() -> None:
    packets = video("h264", 3, W, H, 2)

    def cycle(chn: int) -> None:
        open_decoder(chn, H264, W, H)
        acl.himpi.vdec_get_fd(chn)
        decode(chn, packets)
        assert send(chn, packets[0], SIZE) == 0  # left inside
        status = acl.himpi.vdec_query_status(chn)
        assert status[1] == 0
        ok(acl.himpi.vdec_destroy_chn(chn))

    def figures() -> tuple[int, int]:
        return descriptors(), threading.active_count()

    cycle(0)
    before, memory = figures(), used()
    for number in range(10):
        cycle(number)
    assert figures() == before
    assert used() - memory <= 11 * (SIZE + 100_000)  # what this test itself leaves inside


def test_sys_exit_and_finalize_close_what_is_open() -> None:
    before = threading.active_count()
    open_decoder(0, H264, W, H)
    assert send(0, video("h264", 1, W, H)[0], SIZE) == 0
    ok(acl.himpi.sys_exit())
    assert acl.himpi.vdec_query_status(0)[1] == VDEC + 16
    ok(acl.himpi.sys_init())
    assert acl.himpi.vdec_query_status(0)[1] == VDEC + 5
    open_decoder(0, H264, W, H)
    assert send(0, video("h264", 1, W, H)[0], SIZE) == 0
    ok(acl.finalize())
    assert threading.active_count() == before


# ---- settings and misuse ---------------------------------------------------------------------------------------------


def test_attributes_and_parameters_come_back() -> None:
    ok(acl.himpi.vdec_create_chn(0, channel_attr(H264, W, H)))
    attr = ok(acl.himpi.vdec_get_chn_attr(0))
    assert attr["video_attr"] == {"ref_frame_num": 4, "temporal_mvp_en": 0, "tmv_buf_size": 0}
    attr["frame_buf_cnt"] = 12
    ok(acl.himpi.vdec_set_chn_attr(0, attr))
    assert ok(acl.himpi.vdec_get_chn_attr(0)) == attr
    param = ok(acl.himpi.vdec_get_chn_param(0))
    assert set(param) == {"type", "display_frame_num", "video_param", "pic_param"}
    param["video_param"].update(compress_mode=3, video_format=1, quick_mark_mode=1)
    param["display_frame_num"] = 3
    ok(acl.himpi.vdec_set_chn_param(0, param))
    assert ok(acl.himpi.vdec_get_chn_param(0)) == param
    protocol = ok(acl.himpi.vdec_get_protocol_param(0))
    protocol["h264_param"]["max_slice_num"] = 16
    ok(acl.himpi.vdec_set_protocol_param(0, protocol))
    assert ok(acl.himpi.vdec_get_protocol_param(0)) == protocol
    ok(acl.himpi.vdec_set_display_mode(0, 1))
    assert ok(acl.himpi.vdec_get_display_mode(0)) == 1
    assert acl.himpi.vdec_set_display_mode(0, 5) == VDEC + 3


def test_a_started_channel_keeps_its_settings() -> None:
    open_decoder(0, H264, W, H)
    assert acl.himpi.vdec_set_chn_attr(0, channel_attr(H264, W, H)) == VDEC + 9
    assert acl.himpi.vdec_set_chn_param(0, {}) == VDEC + 9
    assert acl.himpi.vdec_set_protocol_param(0, {}) == VDEC + 9
    assert acl.himpi.vdec_reset_chn(0) == VDEC + 9
    assert acl.himpi.vdec_set_jpegd_precision_mode(0, 1) == VDEC + 8


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"type": 1234}, 8),
        ({"type": 0}, 8),
        ({"mode": 0}, 8),
        ({"pic_width": 0}, 3),
        ({"pic_height": 1 << 20}, 3),
        ({"stream_buf_size": 0}, 3),
        ({"stream_buf_size": (1 << 30) + 64}, 3),
        ({"video_attr": {"ref_frame_num": 17}}, 3),
    ],
)
def test_wrong_attributes_are_refused(change: dict[str, Any], code: int) -> None:
    assert acl.himpi.vdec_create_chn(0, channel_attr(H264, W, H, **change)) == VDEC + code
    ok(acl.himpi.vdec_create_chn(0, channel_attr(H264, W, H)))


@pytest.mark.parametrize("chn", [-1, 256, 1 << 30])
def test_ids_out_of_range(chn: int) -> None:
    assert acl.himpi.vdec_create_chn(chn, channel_attr(H264, W, H)) == VDEC + 2
    assert acl.himpi.vdec_start_recv_stream(chn) == VDEC + 2


def test_codes_of_channels_that_are_not_there() -> None:
    assert acl.himpi.vdec_start_recv_stream(3) == VDEC + 5
    assert acl.himpi.vdec_destroy_chn(3) == VDEC + 5
    attr, ret = acl.himpi.vdec_get_chn_attr(3)
    assert ret == VDEC + 5 and attr["video_attr"]["ref_frame_num"] == 0
    ok(acl.himpi.vdec_create_chn(3, channel_attr(H264, W, H)))
    assert acl.himpi.vdec_create_chn(3, channel_attr(JPEG, W, H)) == VDEC + 4
    assert send(3, b"\0\0\1", 64, ms=0) == VDEC + 9
    assert "vdec_start_recv_stream" in message()


def test_wrong_packets_are_refused() -> None:
    open_decoder(0, H264, W, H, stream_buf_size=1000)
    good, picture = packet(b"\0\0\1\x67" * 10), output(SIZE)
    call = acl.himpi.vdec_send_stream
    assert call(0, {**good, "len": 0}, picture, 0) == VDEC + 3
    assert call(0, {**good, "addr": 0}, picture, 0) == VDEC + 3
    assert call(0, {**good, "addr": 12345}, picture, 0) == VDEC + 3
    assert call(0, {**good, "len": 1001}, picture, 0) == VDEC + 3
    assert call(0, good, {**picture, "vir_addr": 0}, 0) == VDEC + 3
    assert call(0, good, {**picture, "buffer_size": 1 << 31}, 0) == VDEC + 3
    assert call(0, good, {**picture, "pixel_format": 99}, 0) == VDEC + 3
    assert call(0, good, picture, -2) == VDEC + 3
    assert acl.himpi.vdec_get_frame(0, -5)[3] == VDEC + 3
    assert call(0, {}, {}, 0) == VDEC + 3
    assert acl.himpi.vdec_release_frame(0, {}) == VDEC + 3


def test_dictionaries_are_read_as_the_binding_does() -> None:
    open_decoder(0, H264, W, H)
    with pytest.raises(TypeError):
        acl.himpi.vdec_create_chn(1, channel_attr(H264, W, H, video_attr=[1]))
    with pytest.raises(ValueError):
        acl.himpi.vdec_send_stream(0, {"len": 1 << 40}, {}, 0)
    with pytest.raises(TypeError):
        acl.himpi.vdec_send_stream(0, [], {}, 0)
    with pytest.raises(TypeError):
        acl.himpi.vdec_get_frame(0)


def test_nothing_works_before_sys_init(runtime: None) -> None:
    ok(acl.himpi.sys_exit())
    assert acl.himpi.vdec_create_chn(0, channel_attr(H264, W, H)) == VDEC + 16


def test_sizes_of_buffers_hold_a_picture() -> None:
    attr = {"width": 1920, "height": 1080, "bit_width": 0, "pixel_format": NV12, "compress_mode": 0}
    size = acl.himpi.vdec_get_pic_buf_size(H264, attr)
    assert size >= 1920 * 1088 * 3 // 2
    assert acl.himpi.vdec_get_pic_buf_size(H265, {**attr, "bit_width": 1}) > size
    assert acl.himpi.vdec_get_pic_buf_size(JPEG, attr) == 1920 * 1088 * 3 // 2
    assert acl.himpi.vdec_get_pic_buf_size(JPEG, {**attr, "pixel_format": 10000}) == 0
    assert acl.himpi.vdec_get_pic_buf_size(4711, attr) == 0
    assert acl.himpi.vdec_get_tmv_buf_size(H264, 1920, 1080) == (1920 // 16) * (1088 // 16) * 16
    assert acl.himpi.vdec_get_tmv_buf_size(JPEG, 1920, 1080) == 0


def test_a_signal_ends_a_wait() -> None:
    import signal

    class Stop(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Stop

    open_decoder(0, H264, W, H)
    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Stop):
            acl.himpi.vdec_get_frame(0, -1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert in_thread(lambda: acl.himpi.vdec_get_frame(0, 0)[3]) == VDEC + 14


@pytest.mark.parametrize(("soc", "code"), [("Ascend310", 8), ("Ascend310P3", 0), ("Ascend910B1", 0)])
def test_strict_chips_without_the_engine_refuse(soc: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", soc)
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.himpi.sys_init())
    assert acl.himpi.vdec_create_chn(0, channel_attr(H264, W, H)) == (VDEC + code if code else 0)
