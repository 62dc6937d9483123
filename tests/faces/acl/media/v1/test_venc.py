"""Video encoding of acl.media; the streams are read by ffprobe and FFmpeg."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acl
from softnpu.media.v1 import video_channel
from softnpu.runtime.process import process
from tests.faces.acl.media.v1.video_support import (
    H264_MAIN,
    H265,
    NV12,
    NV21,
    Venc,
    download,
    nv12,
    picture_of,
    reference,
    upload,
)
from tests.support import WAIT, Reporter, in_thread, message, ok
from tests.waiting import eventually, settled

INVALID_PARAM, STALE, NO_CONTEXT, NO_CALLBACK_THREAD = 100000, 107000, 107002, 107015
WIDTH, HEIGHT = 176, 144
CODECS = {0: "hevc", 1: "h264", 2: "h264", 3: "h264"}
FFPROBE = pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed")

pytestmark = pytest.mark.usefixtures("runtime")


def psnr(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    return float(10 * np.log10(255**2 / max(1e-9, np.mean((a.astype(float) - b) ** 2))))


def decoded(venc: Venc, codec: str) -> list[np.ndarray[Any, Any]]:
    return [picture for _, picture in reference(codec, tuple(venc.units))]


def probe(data: bytes, folder: Path, codec: str) -> dict[str, Any]:
    """The first stream as ffprobe sees it, with the number and kinds of its pictures."""
    file = folder / f"video.{codec}"
    file.write_bytes(data)
    words = ["ffprobe", "-v", "error", "-f", codec, "-show_streams", "-show_frames", "-of", "json", str(file)]
    report = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)
    return dict(report["streams"][0]) | {"kinds": "".join(frame["pict_type"] for frame in report["frames"]), "keys": [index for index, frame in enumerate(report["frames"]) if frame["key_frame"]]}  # fmt: skip


@FFPROBE
@pytest.mark.parametrize(("entype", "profile"), [(0, "Main"), (1, "Constrained Baseline"), (2, "Main"), (3, "High")])
def test_streams_have_the_profile_that_was_asked_for(entype: int, profile: str, tmp_path: Path) -> None:
    codec = CODECS[entype]
    pictures = [nv12(index, WIDTH, HEIGHT) for index in range(20)]
    with Venc(WIDTH, HEIGHT, entype, key_frame_interval=8) as venc:
        for index, array in enumerate(pictures):
            picture = picture_of(array)
            ok(venc.send(picture, ("picture", index)))
            ok(acl.media.dvpp_free(acl.media.dvpp_get_pic_desc_data(picture)))
            ok(acl.media.dvpp_destroy_pic_desc(picture))
        venc.end()
        assert len(venc.units) == 20, "the end of the stream waits for all callbacks"
    assert [data for _, data in venc.seen] == [("picture", index) for index in range(20)]
    assert venc.codes == [0] * 20
    report = probe(b"".join(venc.units), tmp_path, codec)
    assert (report["width"], report["height"], report["profile"], report["pix_fmt"]) == (
        WIDTH,
        HEIGHT,
        profile,
        "yuv420p",
    )
    assert report["keys"] == [0, 8, 16]
    assert set(report["kinds"]) == {"I", "P"}
    again = decoded(venc, codec)
    assert len(again) == 20
    assert min(psnr(a, b) for a, b in zip(again, pictures, strict=True)) > 30


def test_one_picture_many_times_and_freed_at_once() -> None:
    """The guide's program: sixteen times the same picture, the end, and the picture is freed."""
    array = nv12(0, 128, 128)
    with Venc(128, 128, H265) as venc:
        picture = picture_of(array)
        for _ in range(16):
            ok(venc.send(picture, 0))
        ok(acl.rt.memset(acl.media.dvpp_get_pic_desc_data(picture), array.nbytes, 0, array.nbytes))
        ok(acl.media.dvpp_free(acl.media.dvpp_get_pic_desc_data(picture)))
        venc.end()
        assert venc.seen == [(picture, 0)] * 16
    assert min(psnr(decoded_picture, array) for decoded_picture in decoded(venc, "hevc")) > 32


@pytest.mark.parametrize("stride", [0, 170, 176, 192])
@pytest.mark.parametrize("form", [NV12, NV21])
def test_pictures_of_any_stride_and_format_are_encoded(stride: int, form: int) -> None:
    array = nv12(3, 170, 128)
    row = stride or 176  # what is not said is aligned to 16 if the buffer has room for it
    padded = np.full((192, row), 0xEE, np.uint8)
    padded[:, :170] = array
    if form == NV21:
        padded[128:, :170] = array[128:].reshape(-1, 2)[:, ::-1].reshape(64, 170)
    fields = {"width_stride": stride} if stride else {}
    with Venc(170, 128, pic_format=form) as venc:
        ok(venc.send(picture_of(padded, **fields)))
        if not stride:
            ok(venc.send(picture_of(np.ascontiguousarray(padded[:, :170]))))
    for decoded_picture in decoded(venc, "h264"):
        assert psnr(decoded_picture, array) > 32


def test_key_pictures_come_when_they_are_forced(tmp_path: Path) -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Venc(WIDTH, HEIGHT, key_frame_interval=100) as venc:
        for index in range(10):
            ok(venc.send(picture, force=int(index in (4, 7))))
    assert probe(b"".join(venc.units), tmp_path, "h264")["keys"] == [0, 4, 7]
    kinds = [[unit[0] & 31 for unit in data.split(b"\0\0\1")[1:]] for data in venc.units]
    assert [index for index, kinds_of_units in enumerate(kinds) if 5 in kinds_of_units] == [0, 4, 7]
    assert all({7, 8} <= set(kinds[index]) for index in (0, 4, 7)), "parameter sets stand before each of them"


def test_the_end_and_a_new_stream(tmp_path: Path) -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Venc(WIDTH, HEIGHT) as venc:
        venc.end()
        assert venc.units == []
        ok(venc.send(picture))
        ok(venc.send(picture, eos=1))
        assert len(venc.units) == 2
        venc.end()
        ok(venc.send(picture))
    assert probe(b"".join(venc.units), tmp_path, "h264")["keys"] == [0, 2]


def test_a_constant_bit_rate_is_kept() -> None:
    """CBR keeps to its rate: two seconds of a scene that would take more."""
    random = np.random.default_rng(1)
    grain = random.integers(0, 40, (360, 320), np.uint8)
    pictures = [nv12(3 * index, 320, 240) // 2 + np.roll(grain, 13 * index, 1) for index in range(50)]
    rates = {}
    for rate in (400, 1600):
        with Venc(320, 240, rc_mode=2, max_bit_rate=rate, src_rate=25) as venc:
            for array in pictures:
                picture = picture_of(array)
                ok(venc.send(picture))
                ok(acl.media.dvpp_free(acl.media.dvpp_get_pic_desc_data(picture)))
        rates[rate] = sum(map(len, venc.units)) * 8 / 1000 / 2
    assert all(0.5 * rate < measured < 1.5 * rate for rate, measured in rates.items()), rates


# ---- output memory -----------------------------------------------------------------------------------------------------


def test_output_lives_as_long_as_the_callback() -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    facts: list[tuple[Any, ...]] = []
    with Venc(WIDTH, HEIGHT, H265) as venc:

        def look(_picture: int, stream: int, _data: Any) -> None:
            address = acl.media.dvpp_get_stream_desc_data(stream)
            facts.append((acl.media.dvpp_get_stream_desc_format(stream), address % 128, acl.rt.pointer_get_attributes(address) if hasattr(acl.rt, "pointer_get_attributes") else None))  # fmt: skip

        venc.hook = look
        ok(venc.send(picture))
        venc.end()
        stream, address = venc.outputs[0]
        assert facts[0][:2] == (H265, 0)
        assert acl.media.dvpp_get_stream_desc_size(stream) == 0, "the description is gone"
        assert acl.media.dvpp_destroy_stream_desc(stream) == STALE
        assert acl.media.dvpp_free(address) == STALE


@pytest.mark.parametrize("strict", [False, True])
def test_a_callback_that_frees_what_is_not_its_own(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    codes: list[tuple[int, int]] = []
    with Venc(WIDTH, HEIGHT) as venc:
        monkeypatch.setattr(process().memory.addresses, "strict", strict)

        def spoil(_picture: int, stream: int, _data: Any) -> None:
            address, size = acl.media.dvpp_get_stream_desc_data(stream), acl.media.dvpp_get_stream_desc_size(stream)
            codes.append((acl.media.dvpp_free(address), acl.media.dvpp_destroy_stream_desc(stream)))
            assert download(address, size) == venc.units[-1], "both are still there"

        venc.hook = spoil
        for _ in range(3):
            ok(venc.send(picture))
        venc.end()
    assert len(venc.units) == 3 and codes == [(INVALID_PARAM, INVALID_PARAM)] * 3


def test_a_buffer_of_the_program() -> None:
    buffer = upload(bytes(1 << 20))
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Venc(WIDTH, HEIGHT, buf_addr=buffer, buf_size=1 << 20) as venc:
        for _ in range(5):
            ok(venc.send(picture))
    assert [address for _, address in venc.outputs] == [buffer] * 5
    assert len(decoded(venc, "h264")) == 5
    ok(acl.media.dvpp_free(buffer))


def test_a_buffer_that_is_too_small() -> None:
    buffer = upload(bytes(64))
    with Venc(WIDTH, HEIGHT, buf_addr=buffer, buf_size=8) as venc:
        ok(venc.send(picture_of(nv12(0, WIDTH, HEIGHT))))
    assert venc.outputs[0][1] != buffer
    assert len(decoded(venc, "h264")) == 1


def test_no_memory_for_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback comes all the same, and says so."""
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Venc(WIDTH, HEIGHT) as venc:
        ok(venc.send(picture))
        venc.end()
        memory = process().memory
        monkeypatch.setattr(memory.allocator, "check_room", lambda device, padded, asked: (_ for _ in ()).throw(memory.allocator._full(device, padded, 0)))  # fmt: skip
        ok(venc.send(picture))
    assert venc.codes == [0, 1]
    assert venc.outputs[1][1] == 0


def test_memory_stays_flat_over_many_pictures() -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    used, handles, threads = [], [], []
    for _ in range(4):
        with Venc(WIDTH, HEIGHT) as venc:
            for _ in range(10):
                ok(venc.send(picture))
        used.append(process().devices[0].used)
        handles.append(len(process().handles))
        threads.append(settled(threading.active_count))
    assert len(set(used)) == len(set(handles)) == 1
    assert max(threads) - min(threads) <= 1


# ---- threads -----------------------------------------------------------------------------------------------------------


def test_two_channels_share_a_thread() -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Reporter() as reporter, Venc(WIDTH, HEIGHT, H264_MAIN, reporter) as h264, Venc(WIDTH, HEIGHT, H265, reporter) as h265:  # fmt: skip
        assert [acl.media.venc_get_channel_desc_channel_id(venc.desc) for venc in (h264, h265)] == [0, 1]
        for index in range(12):
            ok(h264.send(picture, index))
            ok(h265.send(picture, -index))
    assert [data for _, data in h264.seen] == list(range(12))
    assert [data for _, data in h265.seen] == [-index for index in range(12)]


def test_the_callback_sends_the_next() -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Venc(WIDTH, HEIGHT) as venc:

        def more(_picture: int, _stream: int, left: int) -> None:
            if left:
                ok(venc.send(picture, left - 1))

        venc.hook = more
        ok(venc.send(picture, 30))
        assert eventually(lambda: len(venc.seen) >= 31)
    assert [data for _, data in venc.seen] == list(range(30, -1, -1))


def test_a_slow_callback_holds_the_sender_back() -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Venc(WIDTH, HEIGHT) as venc:
        venc.hook = lambda *_: time.sleep(0.01)
        for index in range(30):
            ok(venc.send(picture, index))
        assert len(venc.seen) >= 30 - 9
    assert [data for _, data in venc.seen] == list(range(30))


def test_the_thread_ends_too_early() -> None:
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    venc = Venc(WIDTH, HEIGHT)
    ok(venc.send(picture))
    venc.end()
    venc.reporter.close()
    assert venc.send(picture) == NO_CALLBACK_THREAD
    venc.end()
    ok(in_thread(lambda: acl.media.venc_destroy_channel(venc.desc)))
    assert len(venc.units) == 1


def test_a_thread_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_channel, "IDLE_SECONDS", 0.3)
    stop = threading.Event()
    tid = ok(acl.util.start_thread(lambda: stop.wait(WAIT), None))
    picture = picture_of(nv12(0, WIDTH, HEIGHT))
    with Reporter() as unused:
        venc = Venc(WIDTH, HEIGHT, reporter=unused, thread_id=tid)
        answers = [venc.send(picture) for _ in range(9)]
        assert answers == [0] * 8 + [507012]
        began = time.monotonic()
        venc.end()
        venc.close()
        assert time.monotonic() - began < 5
    stop.set()
    ok(acl.util.stop_thread(tid))


# ---- descriptions and misuse -------------------------------------------------------------------------------------------


def test_parameters_are_kept_and_checked() -> None:
    desc = acl.media.venc_create_channel_desc()
    values: dict[str, Any] = {
        "thread_id": 1 << 40, "callback": nv12, "pic_format": 2, "entype": 3, "pic_width": 128, "pic_height": 256,
        "key_frame_interval": 65535, "buf_addr": 1 << 33, "buf_size": 8 << 20, "rc_mode": 2, "src_rate": 25, "max_bit_rate": 3000,
    }  # fmt: skip
    assert acl.media.venc_get_channel_desc_callback(desc) == 0
    for number, (name, value) in enumerate(values.items()):
        assert getattr(acl.media, f"venc_set_channel_desc_{name}")(desc, value) == 0
        assert getattr(acl.media, f"venc_get_channel_desc_{name}")(desc) == value
        assert acl.media.venc_get_channel_desc_param(desc, number) == (value, 0)
    other = acl.media.venc_create_channel_desc()
    for number, value in enumerate([*values.values(), 70]):
        assert acl.media.venc_set_channel_desc_param(other, number, value) == 0
        assert acl.media.venc_get_channel_desc_param(other, number) == (value, 0)
    assert acl.media.venc_get_channel_desc_callback(other) is nv12
    for number, value in ((13, 0), (-1, 0), (3, 4), (9, 3), (6, 65536), (12, 101)):
        assert acl.media.venc_set_channel_desc_param(desc, number, value) == INVALID_PARAM
    assert acl.media.venc_get_channel_desc_param(desc, 13) == (0, INVALID_PARAM)
    for number, wrong in ((1, 5), (4, "128"), (4, 1.5), (4, None)):
        with pytest.raises(TypeError):
            acl.media.venc_set_channel_desc_param(desc, number, wrong)
    with pytest.raises(TypeError):
        acl.media.venc_set_channel_desc_callback(desc, None)
    config = acl.media.venc_create_frame_config()
    assert (acl.media.venc_get_frame_config_eos(config), acl.media.venc_get_frame_config_force_i_frame(config)) == (
        0,
        0,
    )
    ok(acl.media.venc_set_frame_config_eos(config, 1))
    ok(acl.media.venc_set_frame_config_force_i_frame(config, 255))
    assert (acl.media.venc_get_frame_config_eos(config), acl.media.venc_get_frame_config_force_i_frame(config)) == (
        1,
        255,
    )
    with pytest.raises(TypeError):
        acl.media.venc_set_frame_config_eos(config, 256)
    ok(acl.media.venc_destroy_frame_config(config))
    assert acl.media.venc_destroy_frame_config(config) == STALE
    for description in (desc, other):
        ok(acl.media.venc_destroy_channel_desc(description))
    assert acl.media.venc_destroy_channel_desc(desc) == STALE


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"pic_width": 0}, "0x128"), ({"pic_width": 129}, "129x128"), ({"pic_height": 9000}, "9000"), ({"pic_format": 12}, "format 12"),
        ({"max_bit_rate": 1}, "max_bit_rate"), ({"max_bit_rate": 700000}, "max_bit_rate"), ({"src_rate": 241}, "src_rate"), ({"thread_id": 12345}, "thread"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(settings: dict[str, int], word: str) -> None:
    streams = len(process().current().streams)
    with Reporter() as reporter:
        desc = acl.media.venc_create_channel_desc()
        values = {"pic_width": 128, "pic_height": 128, "pic_format": 1, "thread_id": reporter.tid} | settings
        for name, value in values.items():
            ok(getattr(acl.media, f"venc_set_channel_desc_{name}")(desc, value))
        assert acl.media.venc_create_channel(desc) == INVALID_PARAM
        assert word in message()
    assert len(process().current().streams) == streams


def test_wrong_pictures_and_calls_are_refused() -> None:
    array = nv12(0, WIDTH, HEIGHT)
    with Venc(WIDTH, HEIGHT) as venc:
        picture = picture_of(array)
        assert venc.send(0) == INVALID_PARAM
        assert venc.send(picture_of(array, width=128, height=128)) == INVALID_PARAM
        assert venc.send(picture_of(array, format=12)) == INVALID_PARAM
        assert venc.send(picture_of(array[:100])) == INVALID_PARAM
        assert venc.send(acl.media.dvpp_create_pic_desc()) == INVALID_PARAM
        assert venc.send(venc.frame) == STALE
        assert acl.media.venc_send_frame(venc.desc, picture, 5, venc.frame, None) == INVALID_PARAM
        assert acl.media.venc_send_frame(venc.desc, picture, 0, 0, None) == INVALID_PARAM
        assert acl.media.venc_send_frame(0, picture, 0, venc.frame, None) == INVALID_PARAM
        assert acl.media.venc_create_channel(venc.desc) == INVALID_PARAM
        assert acl.media.venc_destroy_channel_desc(venc.desc) == INVALID_PARAM
        assert venc.units == []
    desc = acl.media.venc_create_channel_desc()
    assert acl.media.venc_destroy_channel(desc) == INVALID_PARAM
    with pytest.raises(RuntimeError):
        acl.media.venc_send_frame(desc, 0, 0, acl.media.venc_create_frame_config(), None)
    assert in_thread(lambda: acl.media.venc_create_channel(desc)) == NO_CONTEXT


def test_strict_mode_knows_the_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    desc = acl.media.venc_create_channel_desc()
    monkeypatch.setattr(process().memory.addresses, "strict", True)
    assert acl.media.venc_create_channel(desc) == 200001, "the Ascend910B has no video encoder"


def test_a_strict_chip_refuses_sizes_it_cannot_encode(monkeypatch: pytest.MonkeyPatch) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend310P3")
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    with Reporter() as reporter:
        desc = acl.media.venc_create_channel_desc()
        for name, value in {"pic_width": 96, "pic_height": 96, "thread_id": reporter.tid}.items():
            ok(getattr(acl.media, f"venc_set_channel_desc_{name}")(desc, value))
        assert acl.media.venc_create_channel(desc) == INVALID_PARAM
        assert "96x96" in message()
    with Venc(144, 128) as venc:
        ok(venc.send(picture_of(nv12(0, 144, 128))))
        assert venc.send(picture_of(nv12(0, 144, 128), width_stride=144, height_stride=129)) == INVALID_PARAM
    assert venc.codes == [0]
