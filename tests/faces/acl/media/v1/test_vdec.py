"""Video decoding of acl.media, compared with FFmpeg."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import acl
from softnpu.media.v1 import video_channel
from softnpu.runtime.process import process
from tests.faces.acl.media.v1.video_support import (
    BGR,
    ENTYPES,
    H264_MAIN,
    H265,
    NV12,
    NV21,
    RGB,
    Vdec,
    download,
    in_thread_with_context,
    output,
    packet,
    reference,
    scene,
    upload,
    video,
)  # fmt: skip
from tests.support import WAIT, Reporter, in_thread, message, ok
from tests.waiting import eventually, settled

INVALID_PARAM, STALE, NO_CONTEXT, NO_CALLBACK_THREAD = 100000, 107000, 107002, 107015
SIZE_INVALID, DECODE_FAIL, BITSTREAM, IMAGE_FORMAT, NO_PICTURE, FRAME_BUFFER = (
    4,
    0x10004,
    0x10008,
    0x1000A,
    0x20000,
    0x20002,
)
WIDTH, HEIGHT = 160, 128
BYTES = WIDTH * HEIGHT * 3 // 2

pytestmark = pytest.mark.usefixtures("runtime")


def nv21(picture: np.ndarray[Any, Any]) -> bytes:
    """NV12 with its chroma swapped."""
    rows = picture.shape[0] * 2 // 3
    swapped = picture.copy()
    swapped[rows:] = picture[rows:].reshape(-1, 2)[:, ::-1].reshape(rows // 2, -1)
    return swapped.tobytes()


# ---- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("b_frames", [0, 2])
def test_pictures_are_those_of_ffmpeg(codec: str, b_frames: int) -> None:
    packets = video(codec, 30, b_frames=b_frames)
    wanted = reference(codec, packets)
    tokens = [object() for _ in packets]
    with Vdec(ENTYPES[codec]) as vdec:
        for data, token in zip(packets, tokens, strict=True):
            ok(vdec.send(data, BYTES, token))
        vdec.end()
        assert len(vdec.results) == len(packets), "the end of the stream waits for all callbacks"
    assert [tokens.index(result.user_data) for result in vdec.results] == [index for index, _ in wanted]
    for result, (index, picture) in zip(vdec.results, wanted, strict=True):
        assert result.user_data is tokens[index]
        assert (result.code, result.width, result.height, result.strides) == (0, WIDTH, HEIGHT, (WIDTH, HEIGHT))
        assert (result.size, result.format) == (BYTES, NV12)
        assert result.pixels == picture.tobytes()
        assert result.thread == vdec.reporter.tid


def test_without_the_end_destroy_brings_the_rest() -> None:
    """A sample sends the same one-frame H.265 stream ten times, with no end, and counts ten pictures after destroy."""
    (data,) = video("hevc", 1)
    wanted = reference("hevc", (data,))[0][1].tobytes()
    with Vdec(H265) as vdec:
        for index in range(10):
            ok(vdec.send(data, BYTES, index))
    assert [(result.user_data, result.code) for result in vdec.results] == [(index, 0) for index in range(10)]
    assert all(result.pixels == wanted for result in vdec.results)


def test_one_input_buffer_for_all_packets() -> None:
    """The packet has been read when the send returns: programs put the next one into the same memory."""
    packets = video("h264", 20, b_frames=2)
    wanted = reference("h264", packets)
    buffer = upload(bytes(max(map(len, packets))))
    vdec = Vdec()
    seen: list[tuple[int, int]] = []
    ok(acl.media.vdec_set_channel_desc_callback(vdec.desc, lambda stream, picture, index: seen.append((index, acl.media.dvpp_get_pic_desc_data(picture)))))  # fmt: skip
    stream = acl.media.dvpp_create_stream_desc()
    for index, data in enumerate(packets):
        ok(acl.rt.memcpy(buffer, len(data), acl.util.bytes_to_ptr(data), len(data), 1))
        ok(acl.media.dvpp_set_stream_desc_data(stream, buffer))
        ok(acl.media.dvpp_set_stream_desc_size(stream, len(data)))
        ok(acl.media.vdec_send_frame(vdec.desc, stream, output(BYTES), vdec.frame, index))
    ok(acl.rt.memset(buffer, len(packets[0]), 0xFF, len(packets[0])))
    vdec.close()
    pictures = [(index, download(address, BYTES)) for index, address in seen]
    assert pictures == [(index, picture.tobytes()) for index, picture in wanted]


def test_a_picture_comes_at_once_when_asked() -> None:
    """out_mode 1: the picture comes with its own packet, without waiting for the next."""
    packets = video("hevc", 5)
    with Vdec(H265, out_mode=1) as vdec:
        for index, data in enumerate(packets):
            ok(vdec.send(data, BYTES, index))
            assert eventually(lambda wanted=index + 1: len(vdec.results) >= wanted)
            assert [result.user_data for result in vdec.results] == list(range(index + 1))


@pytest.mark.parametrize(("form", "word"), [(NV21, "nv21"), (RGB, "rgb24"), (BGR, "bgr24")])
@pytest.mark.parametrize("place", ["channel", "picture"])
def test_pictures_come_in_the_format_that_was_asked_for(form: int, word: str, place: str) -> None:
    packets = video("h264", 3)
    size = WIDTH * HEIGHT * 3 // (2 if form == NV21 else 1)
    channel = {"out_pic_format": form if place == "channel" else NV12}
    fields = {"format": form} if place == "picture" else {}
    with Vdec(H264_MAIN, **channel) as vdec:
        for data in packets:
            ok(vdec.send(data, size, **fields))
    for result, (_, picture) in zip(vdec.results, reference("h264", packets), strict=True):
        assert (result.code, result.format) == (0, form)
        if form == NV21:
            assert result.pixels == nv21(picture)
        else:
            pixels = np.frombuffer(result.pixels, np.uint8).reshape(HEIGHT, WIDTH, 3).astype(int)
            assert np.abs(pixels - full_range(picture, form)).max() <= 2


def full_range(picture: np.ndarray[Any, Any], form: int) -> np.ndarray[Any, Any]:
    """NV12 as RGB by the documented matrix (BT.601, full range)."""
    luma = picture[:HEIGHT].astype(float)
    chroma = picture[HEIGHT:].reshape(HEIGHT // 2, WIDTH // 2, 2).astype(float) - 128
    u, v = (np.repeat(np.repeat(chroma[..., n], 2, 0), 2, 1) for n in (0, 1))
    rgb = np.stack([luma + 1.402 * v, luma - 0.344136 * u - 0.714136 * v, luma + 1.772 * u], -1)
    values = np.clip(np.rint(rgb), 0, 255).astype(int)
    return values if form == RGB else values[..., ::-1]


def test_the_channel_may_use_another_matrix() -> None:
    (data,) = video("h264", 1)
    with Vdec(H264_MAIN, out_pic_format=BGR) as wide, Vdec(H264_MAIN, 1, out_pic_format=BGR) as narrow:
        assert acl.media.vdec_get_channel_desc_param(wide.desc, 0) == (4, 0, 0)
        ok(acl.media.vdec_destroy_channel(narrow.desc))
        assert acl.media.vdec_set_channel_desc_param(narrow.desc, 0, 1) == (narrow.desc, 0)
        assert acl.media.vdec_get_channel_desc_param(narrow.desc, 0) == (4, 1, 0)
        ok(acl.media.vdec_create_channel(narrow.desc))
        ok(narrow.send(data, WIDTH * HEIGHT * 3))
        ok(wide.send(data, WIDTH * HEIGHT * 3))
    wanted = cv2.cvtColor(reference("h264", (data,))[0][1], cv2.COLOR_YUV2BGR_NV12).astype(int)
    pixels = np.frombuffer(narrow.results[0].pixels, np.uint8).reshape(HEIGHT, WIDTH, 3).astype(int)
    assert np.abs(pixels - wanted).max() <= 2
    assert wide.results[0].pixels != narrow.results[0].pixels


def test_pictures_are_scaled_to_the_size_that_was_asked_for() -> None:
    packets = video("h264", 3)
    fields = {"width": 80, "height": 64, "width_stride": 96, "height_stride": 64}
    with Vdec() as vdec:
        for data in packets:
            ok(vdec.send(data, 96 * 64 * 3 // 2, **fields))
    for result, (_, picture) in zip(vdec.results, reference("h264", packets), strict=True):
        assert (result.code, result.width, result.height, result.strides) == (0, 80, 64, (96, 64))
        rows = np.frombuffer(result.pixels, np.uint8).reshape(96, 96)[:, :80]
        assert (rows[:64] == cv2.resize(picture[:HEIGHT], (80, 64))).all()
        chroma = cv2.resize(picture[HEIGHT:].reshape(HEIGHT // 2, WIDTH // 2, 2), (40, 32))
        assert (rows[64:] == chroma.reshape(32, 80)).all()


def test_padding_is_not_touched() -> None:
    (data,) = video("h264", 1)
    stride, rows = 192, 144
    size = stride * rows * 3 // 2
    with Vdec() as vdec:
        picture = output(size, width=WIDTH, height=HEIGHT, width_stride=stride, height_stride=rows)
        address = acl.media.dvpp_get_pic_desc_data(picture)
        ok(acl.rt.memset(address, size, 0x5A, size))
        ok(acl.media.vdec_send_frame(vdec.desc, packet(data), picture, 0, None))
    whole = np.frombuffer(vdec.results[0].pixels, np.uint8).reshape(rows * 3 // 2, stride)
    wanted = reference("h264", (data,))[0][1]
    assert (whole[:HEIGHT, :WIDTH] == wanted[:HEIGHT]).all()
    assert (whole[rows : rows + HEIGHT // 2, :WIDTH] == wanted[HEIGHT:]).all()
    whole = whole.copy()
    whole[:HEIGHT, :WIDTH] = whole[rows : rows + HEIGHT // 2, :WIDTH] = 0x5A
    assert (whole == 0x5A).all()


@pytest.mark.parametrize(
    ("soc", "size", "stride"),
    [("Ascend310P3", 176, 176), ("Ascend310P3", 170, 170), ("Ascend310B1", 176, 170), ("Ascend310", 180, 176)],
)
def test_strides_fit_the_buffer(soc: str, size: int, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that compute their sizes without alignment get rows without alignment."""
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", soc)
    ok(acl.init())
    ok(acl.rt.set_device(0))
    packets = video("h264", 1, 170, 128)
    with Vdec() as vdec:
        ok(vdec.send(packets[0], size * 128 * 3 // 2))
    result = vdec.results[0]
    assert (result.code, result.width, result.strides) == (0, 170, (stride, 128))
    rows = np.frombuffer(result.pixels, np.uint8)[: stride * 192].reshape(192, stride)[:, :170]
    assert (rows == reference("h264", packets)[0][1]).all()


def test_streams_of_ten_bits_are_decoded() -> None:
    packets = video("hevc", 3, form="yuv420p10le")
    with Vdec(H265, bit_depth=1) as vdec:
        for data in packets:
            ok(vdec.send(data, BYTES))
    for result, (_, picture) in zip(vdec.results, reference("hevc", packets, "yuv420p10le"), strict=True):
        pixels = np.frombuffer(result.pixels, np.uint8).reshape(-1, WIDTH).astype(int)
        u, v = picture[HEIGHT:].reshape(2, HEIGHT // 2, WIDTH // 2)
        wanted = np.concatenate([picture[:HEIGHT], np.stack([u, v], -1).reshape(HEIGHT // 2, WIDTH)])
        assert result.code == 0
        assert np.abs(pixels - wanted / 4).max() <= 1


def test_ten_bits_as_they_are() -> None:
    packets = video("hevc", 2, form="yuv420p10le")
    with Vdec(H265, bit_depth=1) as vdec:
        for data in packets:
            ok(vdec.send(data, 2 * BYTES, format=18))
    for result, (_, picture) in zip(vdec.results, reference("hevc", packets, "yuv420p10le"), strict=True):
        assert (result.code, result.format, result.strides) == (0, 18, (2 * WIDTH, HEIGHT))
        pixels = np.frombuffer(result.pixels, np.uint16).reshape(-1, WIDTH)
        assert (pixels[:HEIGHT] >> 6 == picture[:HEIGHT]).all()
        u, v = picture[HEIGHT:].reshape(2, HEIGHT // 2, WIDTH // 2)
        assert (pixels[HEIGHT:, ::2] >> 6 == u).all()
        assert (pixels[HEIGHT:, 1::2] >> 6 == v).all()


def test_skipped_frames_give_no_picture() -> None:
    packets = video("h264", 12)
    with Vdec() as vdec:
        for index, data in enumerate(packets):
            ok(vdec.send(data, BYTES, index, skipped=index % 3 == 1))
    wanted = [picture for _, picture in reference("h264", packets)]
    assert [result.user_data for result in vdec.results] == list(range(12))
    for index, result in enumerate(vdec.results):
        if index % 3 == 1:
            assert result.picture == 0
        else:
            assert result.pixels == wanted[index].tobytes()


def test_the_end_with_data_and_a_new_stream_after_it() -> None:
    packets = video("hevc", 4)
    wanted = [picture.tobytes() for _, picture in reference("hevc", packets)]
    with Vdec(H265) as vdec:
        for _ in range(2):
            for index, data in enumerate(packets):
                ok(vdec.send(data, BYTES, index, eos=int(index == 3)))
            assert len(vdec.results) % 4 == 0
    assert [result.pixels for result in vdec.results] == wanted * 2


# ---- what is wrong with a packet or its output -----------------------------------------------------------------------


def test_a_picture_that_fails_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    (data,) = video("h264", 1)
    (other,) = video("hevc", 1)
    cut = data[: len(data) // 2]
    cases: list[tuple[bytes, int, dict[str, int], int]] = [
        (data, BYTES - 1, {}, SIZE_INVALID),
        (data, BYTES, {"width": 320, "height": 256, "width_stride": 320, "height_stride": 256}, SIZE_INVALID),
        (data, BYTES, {"format": 7}, IMAGE_FORMAT),
        (data, BYTES, {"format": 10000}, IMAGE_FORMAT),
        (data, BYTES, {"format": -5}, IMAGE_FORMAT),
        (data, BYTES, {"width": 64}, 3),
        (data, BYTES, {"width": 64, "height": 64, "width_stride": 32, "height_stride": 64}, 3),
        (b"no video at all", BYTES, {}, BITSTREAM),
        (other, BYTES, {}, BITSTREAM),
        (bytes(100), BYTES, {}, BITSTREAM),
        (cut, BYTES, {}, DECODE_FAIL),
        (data, BYTES, {}, 0),
    ]
    with Vdec() as vdec:
        for content, size, fields, _ in cases:
            ok(vdec.send(content, size, **fields))
            vdec.end()
    assert [result.code for result in vdec.results] == [code for *_, code in cases]


def test_pictures_that_need_what_never_came() -> None:
    packets = video("h264", 6)
    with Vdec() as vdec:
        for data in packets[1:]:
            ok(vdec.send(data, BYTES))
    assert [result.code for result in vdec.results] == [DECODE_FAIL] * 5


def test_output_freed_before_it_is_written() -> None:
    packets = video("h264", 1)
    with Vdec() as vdec:
        stream, picture = packet(packets[0]), output(BYTES)
        gate = threading.Event()
        vdec._callback = lambda *_: None  # type: ignore[method-assign]
        seen: list[int] = []
        ok(acl.media.vdec_set_channel_desc_callback(vdec.desc, lambda s, p, d: seen.append(acl.media.dvpp_get_pic_desc_ret_code(p))))  # fmt: skip
        channel = process().handles.get("vdec_channel_desc", vdec.desc).channel
        channel.put(lambda: gate.wait(WAIT), "HOLD")
        ok(acl.media.vdec_send_frame(vdec.desc, stream, picture, 0, None))
        ok(acl.media.dvpp_free(acl.media.dvpp_get_pic_desc_data(picture)))
        gate.set()
    assert seen == [3]


def test_the_end_first_or_twice() -> None:
    (data,) = video("h264", 1)
    with Vdec() as vdec:
        stream = packet(b"", eos=1)
        ok(acl.media.vdec_send_frame(vdec.desc, stream, 0, 0, None))
        assert acl.media.dvpp_get_stream_desc_ret_code(stream) == BITSTREAM
        picture = output(BYTES)
        ok(acl.media.vdec_send_frame(vdec.desc, packet(b"", eos=1), picture, 0, "early"))
        assert (vdec.results[0].user_data, vdec.results[0].code) == ("early", BITSTREAM)
        ok(vdec.send(data, BYTES, "data"))
        ok(acl.media.vdec_send_frame(vdec.desc, packet(b"", eos=1), output(BYTES), 0, "end"))
        assert [result.user_data for result in vdec.results] == ["early", "data", "end"]
        assert vdec.results[2].code == NO_PICTURE
        vdec.end()
        assert len(vdec.results) == 3


def test_the_size_that_was_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    (data,) = video("h264", 1)
    with Vdec(out_pic_width=128, out_pic_height=128) as vdec:
        ok(vdec.send(data, BYTES))
        vdec.end()
        monkeypatch.setattr(process().memory.addresses, "strict", True)
        ok(vdec.send(data, BYTES))
    assert [result.code for result in vdec.results] == [0, FRAME_BUFFER]


@pytest.mark.parametrize(
    ("soc", "codec", "sides", "form", "fields", "code"),
    [
        ("Ascend310P3", "h264", (160, 128), "yuv420p", {}, 0),
        ("Ascend310P3", "h264", (160, 128), "yuv420p", {"format": 12, "width": 160, "height": 128, "width_stride": 480, "height_stride": 128}, 0),
        ("Ascend310P3", "h264", (160, 112), "yuv420p", {}, 0x10006),
        ("Ascend310P3", "h264", (160, 128), "yuv420p", {"width": 150, "height": 100, "width_stride": 150, "height_stride": 100}, 3),
        ("Ascend310P3", "hevc", (160, 128), "yuv420p10le", {}, FRAME_BUFFER),
        ("Ascend310", "h264", (160, 128), "yuv420p", {"format": 12}, IMAGE_FORMAT),
        ("Ascend910B3", "h264", (160, 128), "yuv420p", {"format": 18}, IMAGE_FORMAT),
    ],
)  # fmt: skip
def test_a_strict_chip_refuses_what_it_cannot_decode(soc: str, codec: str, sides: tuple[int, int], form: str, fields: dict[str, int], code: int, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """What runs here and fails on the board fails here in strict mode, with the board's code."""
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", soc)
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    (data,) = video(codec, 1, *sides, form=form)
    with Vdec(ENTYPES[codec]) as vdec:
        ok(vdec.send(data, 2 * BYTES, **fields))
    assert vdec.results[0].code == code


# ---- threads and lifetimes -------------------------------------------------------------------------------------------


def test_two_channels_share_a_thread() -> None:
    packets = video("h264", 20, b_frames=2), video("hevc", 20)
    with Reporter() as reporter, Vdec(H264_MAIN, 0, reporter) as h264, Vdec(H265, 1, reporter) as h265:
        for first, second in zip(*packets, strict=True):
            ok(h264.send(first, BYTES))
            ok(h265.send(second, BYTES))
        h264.end()
        h265.end()
    for vdec, codec, sent in ((h264, "h264", packets[0]), (h265, "hevc", packets[1])):
        assert [result.pixels for result in vdec.results] == [
            picture.tobytes() for _, picture in reference(codec, sent)
        ]


def test_the_callback_sends_the_next() -> None:
    packets = video("hevc", 40)
    with Vdec(H265, out_mode=1) as vdec:
        left = iter(packets)

        def more(_result: Any) -> None:
            data = next(left, None)
            if data is not None:
                ok(vdec.send(data, BYTES))

        vdec.hook = more
        more(None)
        assert eventually(lambda: len(vdec.results) >= len(packets))
    assert [result.pixels for result in vdec.results] == [
        picture.tobytes() for _, picture in reference("hevc", packets)
    ]


def test_more_packets_than_there_is_room() -> None:
    """The send waits; a slow callback gets everything, in order."""
    packets = video("h264", 30) * 4
    with Vdec() as vdec:
        vdec.hook = lambda _: time.sleep(0.005)
        in_thread_with_context(lambda: [ok(vdec.send(data, BYTES, index)) for index, data in enumerate(packets)])
        assert len(vdec.results) > 40
    assert [result.user_data for result in vdec.results] == list(range(120))


def test_sender_and_callbacks_in_one_thread() -> None:
    packets = video("h264", 50)
    seen: list[int] = []
    desc = acl.media.vdec_create_channel_desc()
    for name, value in {"channel_id": 3, "thread_id": threading.get_ident(), "callback": lambda s, p, d: seen.append(d), "entype": H264_MAIN}.items():  # fmt: skip
        ok(getattr(acl.media, f"vdec_set_channel_desc_{name}")(desc, value))
    ok(acl.media.vdec_create_channel(desc))
    picture = output(BYTES)
    for index, data in enumerate(packets):
        ok(acl.media.vdec_send_frame(desc, packet(data), picture, 0, index))
    began = time.monotonic()
    ok(acl.media.vdec_send_frame(desc, packet(b"", eos=1), 0, 0, None))
    assert time.monotonic() - began < 5
    assert seen == []
    ok(acl.rt.process_report(1000))
    assert seen == [0]
    ok(acl.media.vdec_destroy_channel(desc))
    assert seen == list(range(50)), "what the thread has not taken runs when it destroys the channel"
    ok(acl.media.vdec_destroy_channel_desc(desc))


def test_destroyed_inside_its_own_callback() -> None:
    packets = video("h264", 10)
    vdec = Vdec()
    answers: list[int] = []

    def destroy(_result: Any) -> None:
        if not answers:
            answers.append(1)
            answers.append(acl.media.vdec_destroy_channel(vdec.desc))

    vdec.hook = destroy
    sent = 0
    for data in packets:
        if vdec.send(data, BYTES):
            break
        sent += 1
    assert eventually(lambda: len(answers) >= 2)
    assert answers == [1, 0]
    assert len(vdec.results) == sent
    ok(acl.media.vdec_destroy_channel_desc(vdec.desc))
    vdec.reporter.close()


def test_tasks_of_the_device_are_aborted() -> None:
    """What was not decoded comes back, too: "channel abnormal"."""
    packets = video("h264", 5)
    with Vdec() as vdec:
        gate = threading.Event()
        process().handles.get("vdec_channel_desc", vdec.desc).channel.put(lambda: gate.wait(WAIT), "HOLD")
        for index, data in enumerate(packets):
            ok(vdec.send(data, BYTES, index))
        threading.Timer(0.2, gate.set).start()
        ok(acl.rt.device_task_abort(0, 10_000))
    assert [(result.user_data, result.code) for result in vdec.results] == [(index, 14) for index in range(5)]


def test_the_thread_ends_too_early() -> None:
    (data,) = video("h264", 1)
    vdec = Vdec()
    vdec.reporter.close()
    assert vdec.send(data, BYTES) == NO_CALLBACK_THREAD
    began = time.monotonic()
    vdec.end()
    ok(acl.media.vdec_destroy_channel(vdec.desc))
    assert time.monotonic() - began < 5


def test_the_thread_ends_with_packets_under_way() -> None:
    packets = video("h264", 20)
    vdec = Vdec()
    gate = threading.Event()
    process().handles.get("vdec_channel_desc", vdec.desc).channel.put(lambda: gate.wait(WAIT), "HOLD")
    for data in packets:
        ok(vdec.send(data, BYTES))
    vdec.reporter.close()
    gate.set()
    began = time.monotonic()
    vdec.end()
    ok(acl.media.vdec_destroy_channel(vdec.desc))
    assert time.monotonic() - began < 5
    assert vdec.results == []
    ok(acl.media.vdec_destroy_channel_desc(vdec.desc))


def test_a_thread_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_channel, "IDLE_SECONDS", 0.3)
    packets = video("h264", 30) * 2
    stop = threading.Event()
    tid = ok(acl.util.start_thread(lambda: stop.wait(WAIT), None))
    desc = acl.media.vdec_create_channel_desc()
    for name, value in {"channel_id": 0, "thread_id": tid, "callback": lambda *_: None, "entype": H264_MAIN}.items():
        ok(getattr(acl.media, f"vdec_set_channel_desc_{name}")(desc, value))
    ok(acl.media.vdec_create_channel(desc))
    picture = output(BYTES)
    answers = [acl.media.vdec_send_frame(desc, packet(data), picture, 0, None) for data in packets[:34]]
    assert set(answers) == {0, 507012}
    assert "process_report" in message()
    began = time.monotonic()
    ok(acl.media.vdec_send_frame(desc, packet(b"", eos=1), 0, 0, None))
    ok(acl.media.vdec_destroy_channel(desc))
    assert time.monotonic() - began < 5
    stop.set()
    ok(acl.util.stop_thread(tid))


def test_exceptions_in_callbacks_go_no_further() -> None:
    packets = video("h264", 5)
    with Vdec() as vdec:

        def fail(result: Any) -> None:
            if result.user_data < 3:
                raise ValueError("from the callback")

        vdec.hook = fail
        for index, data in enumerate(packets):
            ok(vdec.send(data, BYTES, index))
        vdec.end()
    assert [result.user_data for result in vdec.results] == list(range(5))


def test_descriptions_destroyed_before_the_callback() -> None:
    (data,) = video("h264", 1)
    seen: list[tuple[int, int]] = []
    with Vdec() as vdec:
        ok(
            acl.media.vdec_set_channel_desc_callback(
                vdec.desc, lambda stream, picture, _: seen.append((stream, picture))
            )
        )
        stream, picture = packet(data), output(BYTES)
        address = acl.media.dvpp_get_pic_desc_data(picture)
        ok(acl.media.vdec_send_frame(vdec.desc, stream, picture, 0, None))
        ok(acl.media.dvpp_destroy_stream_desc(stream))
        ok(acl.media.dvpp_destroy_pic_desc(picture))
    assert seen == [(stream, picture)]
    assert download(address, BYTES) == reference("h264", (data,))[0][1].tobytes()
    assert acl.media.dvpp_destroy_pic_desc(picture) == STALE
    ok(acl.media.dvpp_free(address))
    assert acl.media.dvpp_free(address) == STALE


def test_user_data_is_let_go() -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    (data,) = video("h264", 1)
    vdec = Vdec()
    ok(acl.media.vdec_set_channel_desc_callback(vdec.desc, lambda *_: None))
    ok(acl.media.vdec_send_frame(vdec.desc, packet(data), output(BYTES), 0, thing))
    vdec.close()
    del thing
    gc.collect()
    assert gone() is None


def test_memory_stays_flat_over_many_packets() -> None:
    packets = video("h264", 10)
    used, handles, threads = [], [], []
    for _ in range(4):
        with Vdec() as vdec:
            for data in packets:
                ok(vdec.send(data, BYTES))
        used.append(process().devices[0].used)
        handles.append(len(process().handles))
        threads.append(settled(threading.active_count))
    assert len(set(used)) == 1
    assert len(set(handles[1:])) == 1
    assert max(threads) - min(threads) <= 1


def test_reset_with_an_open_channel() -> None:
    packets = video("h264", 10)
    vdec = Vdec()
    for data in packets:
        ok(vdec.send(data, BYTES))
    ok(in_thread(lambda: acl.rt.reset_device(0)))
    assert acl.media.vdec_send_frame(vdec.desc, packet(b"", eos=1), 0, 0, None) in (INVALID_PARAM, STALE)
    ok(acl.rt.set_device(0))
    with Vdec() as again:
        ok(again.send(packets[0], BYTES))
    assert again.results[0].code == 0
    ok(acl.media.vdec_destroy_channel(vdec.desc))
    ok(acl.media.vdec_destroy_channel_desc(vdec.desc))
    vdec.reporter.close()


def test_a_program_that_just_ends(tmp_path: Path) -> None:
    """No channel is destroyed, packets are under way: the process ends at once, with its own exit code."""
    lines = """
        import sys, time, acl
        from tests.faces.acl.media.v1.video_support import Vdec, Venc, nv12, picture_of, video
        acl.init(), acl.rt.set_device(0)
        vdec, venc = Vdec(), Venc(160, 128)
        vdec.hook = lambda _: time.sleep(0.2)
        for data in video("h264", 20):
            assert vdec.send(data, 160 * 128 * 3 // 2) == 0
        assert venc.send(picture_of(nv12(0, 160, 128))) == 0
        sys.exit(7)
    """
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(lines), encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


# ---- descriptions and misuse -----------------------------------------------------------------------------------------


def test_getters_return_what_was_set() -> None:
    desc = acl.media.vdec_create_channel_desc()
    assert acl.media.vdec_get_channel_desc_callback(desc) == 0
    values: dict[str, Any] = {
        "channel_id": 7, "thread_id": 1 << 40, "callback": scene, "entype": 2, "out_pic_format": 13, "out_pic_width": 4096,
        "out_pic_height": 2160, "ref_frame_num": 9, "out_mode": 1, "bit_depth": 1,
    }  # fmt: skip
    for name, value in values.items():
        assert getattr(acl.media, f"vdec_set_channel_desc_{name}")(desc, value) == 0
    for name, value in values.items():
        assert getattr(acl.media, f"vdec_get_channel_desc_{name}")(desc) == value
    for name, bad in (("entype", 4), ("entype", -1), ("out_mode", 2), ("bit_depth", 10)):
        assert getattr(acl.media, f"vdec_set_channel_desc_{name}")(desc, bad) == INVALID_PARAM
    assert acl.media.vdec_set_channel_desc_param(desc, 1, 0)[1] == INVALID_PARAM
    assert acl.media.vdec_set_channel_desc_param(desc, 0, 77)[1] == INVALID_PARAM
    assert acl.media.vdec_get_channel_desc_param(desc, 5) == (0, 0, INVALID_PARAM)
    with pytest.raises(TypeError):
        acl.media.vdec_set_channel_desc_callback(desc, 5)
    ok(acl.media.vdec_destroy_channel_desc(desc))
    assert acl.media.vdec_destroy_channel_desc(desc) == STALE
    assert acl.media.vdec_get_channel_desc_entype(desc) == 0


def test_a_channel_is_created_when_its_settings_are_complete() -> None:
    desc = acl.media.vdec_create_channel_desc()
    with Reporter() as reporter:
        assert acl.media.vdec_create_channel(desc) == INVALID_PARAM
        assert "channel id" in message()
        ok(acl.media.vdec_set_channel_desc_channel_id(desc, 5))
        assert acl.media.vdec_create_channel(desc) == INVALID_PARAM
        assert "thread" in message()
        ok(acl.media.vdec_set_channel_desc_thread_id(desc, reporter.tid))
        assert in_thread(lambda: acl.media.vdec_create_channel(desc)) == NO_CONTEXT
        ok(acl.media.vdec_set_channel_desc_channel_id(desc, 32))
        assert acl.media.vdec_create_channel(desc) == INVALID_PARAM
        ok(acl.media.vdec_set_channel_desc_channel_id(desc, 31))
        ok(acl.media.vdec_create_channel(desc))
        assert acl.media.vdec_create_channel(desc) == INVALID_PARAM
        other = acl.media.vdec_create_channel_desc()
        ok(acl.media.vdec_set_channel_desc_channel_id(other, 31))
        ok(acl.media.vdec_set_channel_desc_thread_id(other, reporter.tid))
        assert acl.media.vdec_create_channel(other) == INVALID_PARAM
        assert "in use" in message()
        with pytest.raises(RuntimeError):
            acl.media.vdec_send_frame(desc, packet(b"", eos=1), 0, 0, None)
        assert acl.media.vdec_destroy_channel_desc(desc) == INVALID_PARAM
        ok(acl.media.vdec_destroy_channel(desc))
        assert acl.media.vdec_destroy_channel(desc) == INVALID_PARAM
        ok(acl.media.vdec_create_channel(other))
        ok(acl.media.vdec_destroy_channel(other))
        ok(acl.media.vdec_destroy_channel_desc(desc))
    assert acl.media.vdec_create_channel(other) == INVALID_PARAM, "the thread has ended"


def test_wrong_arguments_of_send_are_refused() -> None:
    (data,) = video("h264", 1)
    with Vdec() as vdec:
        stream, picture = packet(data), output(BYTES)

        def send(*args: int) -> int:
            return int(acl.media.vdec_send_frame(*args, None))

        assert send(vdec.desc, packet(b""), picture, 0) == INVALID_PARAM
        assert send(vdec.desc, stream, 0, 0) == INVALID_PARAM
        assert send(vdec.desc, stream, acl.media.dvpp_create_pic_desc(), 0) == INVALID_PARAM
        assert send(vdec.desc, 0, picture, 0) == INVALID_PARAM
        assert send(vdec.desc, picture, picture, 0) == STALE
        assert send(vdec.desc, stream, stream, 0) == STALE
        assert send(vdec.desc, stream, picture, stream) == STALE
        assert send(0, stream, picture, 0) == INVALID_PARAM
        empty = packet(b"")
        ok(acl.media.dvpp_set_stream_desc_size(empty, 10))
        assert send(vdec.desc, empty, picture, 0) == INVALID_PARAM
        ok(acl.media.dvpp_set_stream_desc_size(stream, len(data) + 100_000))
        assert send(vdec.desc, stream, picture, 0) == STALE
        with pytest.raises(TypeError):
            acl.media.vdec_send_frame(vdec.desc, stream, picture, 0)
        with pytest.raises(TypeError):
            acl.media.vdec_send_frame(vdec.desc, stream, "picture", 0, None)
        ok(acl.media.dvpp_set_stream_desc_size(stream, len(data)))
        ok(send(vdec.desc, stream, picture, 0))
    assert len(vdec.results) == 1
    assert acl.media.vdec_send_frame(vdec.desc, 0, 0, 0, None) == STALE
    config = acl.media.vdec_create_frame_config()
    ok(acl.media.vdec_destroy_frame_config(config))
    assert acl.media.vdec_destroy_frame_config(config) == STALE
    assert acl.media.vdec_destroy_frame_config(0) == INVALID_PARAM
