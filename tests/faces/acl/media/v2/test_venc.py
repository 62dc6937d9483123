"""Video encoding of acl.himpi: the streams are read by FFmpeg."""

from __future__ import annotations

import json
import select
import subprocess
import threading
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import acl
from tests.faces.acl.media.v1.video_support import scene
from tests.faces.acl.media.v2.coder_support import (
    LIMIT_MS,
    NV12,
    NV21,
    VENC,
    Dict,
    blocked,
    encode_attr,
    frame_of,
    open_encoder,
    rate_control,
    take,
    used,
    woken,
)
from tests.faces.acl.media.v2.support import Array, descriptors, put
from tests.support import WAIT, message, ok

pytestmark = pytest.mark.usefixtures("himpi")
W, H = 160, 128
CODECS = ["h264", "h265"]
NAMES = {"h264": "h264", "h265": "hevc"}


def picture(index: int, width: int = W, height: int = H) -> Array:
    """A moving scene as nv12."""
    frame = av.VideoFrame.from_ndarray(scene(index, width, height), "rgb24").reformat(format="nv12")
    return frame.to_ndarray()


def encode(chn: int, count: int, first: int = 0) -> list[tuple[Dict, list[bytes]]]:
    """Send pictures and take the stream of each at once."""
    address = put(picture(0))
    results = []
    for index in range(first, first + count):
        raw = picture(index).tobytes()
        ok(acl.rt.memcpy(address, len(raw), acl.util.bytes_to_ptr(raw), len(raw), 1))
        ok(acl.himpi.venc_send_frame(chn, frame_of(address, W, H, pts=index * 40000), LIMIT_MS))
        results.append(take(chn))
    ok(acl.himpi.dvpp_free(address))
    return results


def joined(results: list[tuple[Dict, list[bytes]]]) -> bytes:
    """The whole stream."""
    return b"".join(part for _, data in results for part in data)


def decoded(codec: str, stream: bytes) -> list[Array]:
    """The pictures of a stream, by FFmpeg."""
    context = av.CodecContext.create(NAMES[codec], "r")
    packets = [*context.parse(stream), *context.parse(None)]
    frames = [frame for packet in [*packets, None] for frame in context.decode(packet)]
    return [frame.reformat(format="nv12").to_ndarray() for frame in frames]


def probe(path: Path, what: str) -> list[dict[str, Any]]:
    """What ffprobe says about a file: its streams or frames."""
    command = ["ffprobe", "-v", "error", f"-show_{what}", "-of", "json", str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
    assert answer.returncode == 0 and not answer.stderr, answer.stderr
    entries: list[dict[str, Any]] = json.loads(answer.stdout)[what]
    return entries


def likeness(a: Array, b: Array) -> float:
    """PSNR of the luma."""
    error = np.mean((a[:H].astype(float) - b[:H]) ** 2)
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


@pytest.mark.parametrize(("codec", "profile", "word"), [("h264", 0, "Constrained Baseline"), ("h264", 1, "Main"), ("h264", 2, "High"), ("h265", 0, "Main")])  # fmt: skip
def test_a_stream_has_the_profile_that_was_asked_for(codec: str, profile: int, word: str, tmp_path: Path) -> None:
    open_encoder(0, codec, W, H, profile=profile)
    results = encode(0, 25)
    path = tmp_path / f"stream.{codec}"
    path.write_bytes(joined(results))
    (stream,) = probe(path, "streams")
    assert (stream["codec_name"], stream["width"], stream["height"]) == (NAMES[codec], W, H)
    assert stream["profile"] == word and stream["r_frame_rate"] == "30/1" and stream["has_b_frames"] == 0
    types = [frame["pict_type"] for frame in probe(path, "frames")]
    assert types == ["I" if index % 10 == 0 else "P" for index in range(25)]
    pictures = decoded(codec, path.read_bytes())
    assert len(pictures) == 25
    assert min(likeness(decoded_picture, picture(index)) for index, decoded_picture in enumerate(pictures)) > 32


def test_a_pack_tells_everything() -> None:
    open_encoder(3, "h264", W, H)
    address = put(picture(0))
    ok(acl.himpi.venc_send_frame(3, frame_of(address, W, H, pts=1 << 40), LIMIT_MS))
    stream = ok(acl.himpi.venc_get_stream(3, {"pack_cnt": 3}, LIMIT_MS))
    assert set(stream) == {"pack_cnt", "seq", "pack"} and (stream["pack_cnt"], stream["seq"]) == (1, 0)
    (pack,) = stream["pack"]
    assert (pack["input_addr"], pack["pts"], pack["is_frame_end"], pack["offset"]) == (address, 1 << 40, 1, 0)
    assert pack["phys_addr"] == pack["addr"] and pack["data_num"] == 2  # the parameter sets
    assert acl.himpi.dvpp_free(pack["addr"]) != 0  # it is the channel's
    assert acl.rt.free(pack["addr"]) != 0
    ok(acl.himpi.venc_release_stream(3, stream))
    assert acl.himpi.venc_release_stream(3, stream) == VENC + 3


@pytest.mark.parametrize("codec", CODECS)
def test_units_are_given_one_at_a_time_when_asked(codec: str) -> None:
    open_encoder(0, codec, W, H, is_by_frame=0)
    address = put(picture(0))
    ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H), LIMIT_MS))
    units, numbers, last = [], [], []
    for _ in range(3 if codec == "h264" else 4):
        stream, data = take(0, count=1)
        assert stream["pack_cnt"] == 1
        units += data
        numbers.append(stream["seq"])
        last.append(stream["pack"][0]["is_frame_end"])
    kinds = [unit[unit.index(b"\0\0\1") + 3] for unit in units]
    wanted = [7, 8, 5] if codec == "h264" else [32, 33, 34, 19]
    assert [kind & 31 if codec == "h264" else kind >> 1 for kind in kinds] == wanted
    assert numbers == list(range(len(wanted))) and last == [0] * (len(wanted) - 1) + [1]
    assert len(decoded(codec, b"".join(units))) == 1
    assert acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, 0)[1] == VENC + 14


def test_the_module_parameter_for_several_packets_a_frame() -> None:
    param = ok(acl.himpi.venc_get_mod_param({"mod_type": 2}))
    assert param["mod_type"] == 2 and param["h264_mod_param"]["one_stream_buf"] == 1
    assert {"venc_mod_param", "h264_mod_param", "h265_mod_param", "jpeg_mod_param"} < set(param)
    param["h264_mod_param"]["one_stream_buf"] = 0
    ok(acl.himpi.venc_set_mod_param(param))
    open_encoder(0, "h264", W, H)
    assert acl.himpi.venc_set_mod_param(param) == VENC + 9  # a channel exists
    address = put(picture(0))
    ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H), LIMIT_MS))
    assert acl.himpi.venc_get_stream(0, {"pack_cnt": 2}, LIMIT_MS) == ({"pack_cnt": 2}, VENC + 3)
    assert ok(acl.himpi.venc_query_status(0))["cur_packs"] == 3
    stream, data = take(0)
    assert stream["pack_cnt"] == 3 and [pack["is_frame_end"] for pack in stream["pack"]] == [0, 0, 1]
    assert len(decoded("h264", b"".join(data))) == 1


@pytest.mark.parametrize("kind", ["cbr", "vbr", "avbr", "qvbr", "cvbr", "fixqp"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_rate_control_makes_a_good_stream(codec: str, kind: str) -> None:
    open_encoder(0, codec, W, H, rate_control(codec, kind))
    results = encode(0, 12)
    pictures = decoded(codec, joined(results))
    assert len(pictures) == 12 and likeness(pictures[11], picture(11)) > 30


def test_a_bit_rate_is_a_bit_rate() -> None:
    sizes = {}
    for rate in (100, 1000):
        open_encoder(0, "h264", W, H, rate_control("h264", "cbr", bit_rate=rate))
        sizes[rate] = len(joined(encode(0, 30)))
        ok(acl.himpi.venc_destroy_chn(0))
    assert sizes[100] < 100_000 / 8 * 1.6 and sizes[1000] > 2 * sizes[100]


def test_quality_limits_have_an_effect() -> None:
    sizes = []
    for least in (0, 40):
        open_encoder(0, "h264", W, H)
        param = ok(acl.himpi.venc_get_rc_param(0, 2))
        param["h264_vbr_param"]["min_qp"] = least
        ok(acl.himpi.venc_set_rc_param(0, param))
        assert ok(acl.himpi.venc_get_rc_param(0, 2)) == param
        sizes.append(len(joined(encode(0, 6))))
        ok(acl.himpi.venc_destroy_chn(0))
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize("codec", CODECS)
def test_key_pictures_on_request(codec: str, tmp_path: Path) -> None:
    open_encoder(0, codec, W, H, rate_control(codec, "cbr", bit_rate=2000, gop=100))
    results = encode(0, 3)
    ok(acl.himpi.venc_request_idr(0, 1))
    results += encode(0, 2, 3)
    address = put(picture(5))
    user = {"user_frame": frame_of(address, W, H), "user_rc_info": {"frame_type": 2}}
    ok(acl.himpi.venc_send_frame_ex(0, user, LIMIT_MS))
    results.append(take(0))
    user["user_rc_info"]["frame_type"] = 1
    ok(acl.himpi.venc_send_frame_ex(0, user, LIMIT_MS))
    results.append(take(0))
    path = tmp_path / "stream"
    path.write_bytes(joined(results))
    assert [frame["pict_type"] for frame in probe(path, "frames")] == ["I", "P", "P", "I", "P", "I", "P"]


@pytest.mark.parametrize(("source", "target"), [(30, 10), (30, 30), (25, 10)])
def test_the_frame_rate_drops_pictures(source: int, target: int) -> None:
    open_encoder(0, "h264", W, H, rate_control("h264", src_frame_rate=source, dst_frame_rate=target))
    address = put(picture(0))
    for index in range(2 * source):
        ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H, pts=index), LIMIT_MS))
    times = []
    for _ in range(2 * target):
        stream, _ = take(0)
        times.append(stream["pack"][0]["pts"])
    assert times[0] == 0 and set(np.diff(times)) <= {source // target, source // target + 1}
    assert ok(acl.himpi.venc_query_status(0))["left_pics"] == 0
    assert acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, 0)[1] == VENC + 14


def test_chroma_in_memory_of_its_own_and_the_other_order() -> None:
    open_encoder(0, "h264", W, H, rate_control("h264", "fixqp", i_qp=5, p_qp=5))
    whole = picture(3)
    luma, chroma = put(whole[:H]), put(whole[H:])
    ok(acl.himpi.venc_send_frame(0, frame_of(luma, W, H, virt_addr=[luma, chroma, 0]), LIMIT_MS))
    swapped = put(np.concatenate([whole[:H], whole[H:].reshape(-1, 2)[:, ::-1].reshape(H // 2, W)]))
    results = [take(0)]
    ok(acl.himpi.venc_send_frame(0, frame_of(swapped, W, H, NV21), LIMIT_MS))
    results.append(take(0))
    for decoded_picture in decoded("h264", joined(results)):
        assert np.abs(decoded_picture.astype(int) - whole).max() <= 8


def test_padding_is_not_encoded() -> None:
    open_encoder(0, "h264", W, H, rate_control("h264", "fixqp", i_qp=5, p_qp=5))
    whole = picture(2)
    padded = np.full((H + 16 + H // 2, 192), 0xEE, np.uint8)
    padded[:H, :W], padded[H + 16 :, :W] = whole[:H], whole[H:]
    address = put(padded)
    frame = frame_of(address, W, H, width_stride=[192, 0, 0], height_stride=[H + 16, 0, 0])
    ok(acl.himpi.venc_send_frame(0, frame, LIMIT_MS))
    (decoded_picture,) = decoded("h264", joined([take(0)]))
    assert np.abs(decoded_picture.astype(int) - whole).max() <= 8


def test_the_picture_is_copied_at_once() -> None:
    open_encoder(0, "h264", W, H, rate_control("h264", "fixqp", i_qp=5, p_qp=5))
    whole = picture(4)
    address = put(whole)
    ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H), LIMIT_MS))
    ok(acl.rt.memset(address, whole.size, 0, whole.size))
    ok(acl.himpi.dvpp_free(address))
    (decoded_picture,) = decoded("h264", joined([take(0)]))
    assert np.abs(decoded_picture.astype(int) - whole).max() <= 8


def test_grey_and_cropped_pictures_are_encoded() -> None:
    open_encoder(0, "h264", 64, 64, rate_control("h264", "fixqp", i_qp=5, p_qp=5))
    param = ok(acl.himpi.venc_get_chn_param(0))
    param["color_to_grey_en"] = 1
    param["crop_info"] = {"enable": 1, "rect": {"x": 32, "y": 16, "width": 64, "height": 64}}
    ok(acl.himpi.venc_set_chn_param(0, param))
    assert ok(acl.himpi.venc_get_chn_param(0)) == param
    whole = picture(1)
    ok(acl.himpi.venc_send_frame(0, frame_of(put(whole), W, H), LIMIT_MS))
    (decoded_picture,) = decoded("h264", joined([take(0)]))
    assert np.abs(decoded_picture[:64].astype(int) - whole[16:80, 32:96]).max() <= 8
    assert np.abs(decoded_picture[64:].astype(int) - 128).max() <= 1


def test_what_the_stream_says_about_itself(tmp_path: Path) -> None:
    open_encoder(0, "h264", W, H)
    vui = ok(acl.himpi.venc_get_h264_vui(0))
    vui["vui_aspect_ratio"].update(aspect_ratio_info_present_flag=1, aspect_ratio_idc=255, sar_width=4, sar_height=3)
    vui["vui_video_signal"].update(
        video_signal_type_present_flag=1, video_full_range_flag=1, colour_description_present_flag=1,
        colour_primaries=1, transfer_characteristics=1, matrix_coefficients=1,
    )  # fmt: skip
    ok(acl.himpi.venc_set_h264_vui(0, vui))
    assert ok(acl.himpi.venc_get_h264_vui(0)) == vui
    path = tmp_path / "stream.h264"
    path.write_bytes(joined(encode(0, 2)))
    (stream,) = probe(path, "streams")
    assert stream["sample_aspect_ratio"] == "4:3" and stream["color_range"] == "pc"
    assert stream["color_space"] == stream["color_primaries"] == stream["color_transfer"] == "bt709"
    assert acl.himpi.venc_set_h265_vui(0, {}) == VENC + 8


@pytest.mark.parametrize(("codec", "kinds", "count"), [("h264", (1, 5), 4), ("h265", range(22), 1)])
def test_pictures_are_split_into_slices_when_asked(codec: str, kinds: Any, count: int) -> None:
    open_encoder(0, codec, W, H, is_by_frame=0)
    split = ok(acl.himpi.venc_get_slice_split(0))
    assert split["split_enable"] == 0
    split.update(split_enable=1, split_size=2)
    ok(acl.himpi.venc_set_slice_split(0, split))
    ok(acl.himpi.venc_send_frame(0, frame_of(put(picture(0)), W, H), LIMIT_MS))
    _, data = take(0)
    headers = [unit[unit.index(b"\0\0\1") + 3] for unit in data]
    slices = [kind for kind in headers if (kind & 31 if codec == "h264" else kind >> 1) in kinds]
    assert len(slices) == count  # of 8 rows of blocks; H.265 has none, and says so in the log
    assert acl.himpi.venc_set_slice_split(0, {"split_enable": 1, "split_mode": 0, "split_size": 2}) == VENC + 8
    assert acl.himpi.venc_set_slice_split(0, {"split_enable": 1, "split_mode": 1, "split_size": 99}) == VENC + 3


def test_attributes_can_change_while_it_runs(tmp_path: Path) -> None:
    open_encoder(0, "h264", W, H)
    results = encode(0, 2)
    attr = ok(acl.himpi.venc_get_chn_attr(0))
    assert attr["rc_attr"]["h264_vbr"]["max_bit_rate"] == 4000 and attr["gop_attr"]["normal_p"]["ip_qp_delta"] == 3
    attr["rc_attr"]["h264_vbr"]["max_bit_rate"] = 500
    ok(acl.himpi.venc_set_chn_attr(0, attr))
    assert ok(acl.himpi.venc_get_chn_attr(0)) == attr
    results += encode(0, 2, 2)
    path = tmp_path / "stream"
    path.write_bytes(joined(results))
    assert [frame["pict_type"] for frame in probe(path, "frames")] == ["I", "P", "I", "P"]
    attr["venc_attr"]["buf_size"] *= 2
    assert acl.himpi.venc_set_chn_attr(0, attr) == VENC + 9


@pytest.mark.parametrize("name", ["cu_pred", "intra_refresh", "ref_param", "streamcopy_param"])
def test_settings_come_back(name: str) -> None:
    open_encoder(0, "h265", W, H)
    get, put_back = getattr(acl.himpi, f"venc_get_{name}"), getattr(acl.himpi, f"venc_set_{name}")
    values = ok(get(0))
    first = next(iter(values))
    values[first] = 1
    ok(put_back(0, values))
    assert ok(get(0)) == values
    missing, ret = get(9)
    assert ret == VENC + 5 and set(missing) == set(values)
    assert len(decoded("h265", joined(encode(0, 3)))) == 3


def test_scene_mode_and_regions() -> None:
    open_encoder(0, "h264", W, H)
    ok(acl.himpi.venc_set_scene_mode(0, 1))
    assert ok(acl.himpi.venc_get_scene_mode(0)) == 1
    assert acl.himpi.venc_set_scene_mode(0, 7) == VENC + 3
    region = {"idx": 2, "enable": 1, "is_abs_qp": 1, "qp": 20, "rect": {"x": 0, "y": 0, "width": 32, "height": 32}}
    ok(acl.himpi.venc_set_roi_attr(0, region))
    assert ok(acl.himpi.venc_get_roi_attr(0, 2)) == region
    assert ok(acl.himpi.venc_get_roi_attr(0, 1))["enable"] == 0
    assert acl.himpi.venc_set_roi_attr(0, {**region, "idx": 8}) == VENC + 3
    assert acl.himpi.venc_get_roi_attr(0, 99)[1] == VENC + 3


def test_maps_of_quality_have_the_sizes_of_the_manual() -> None:
    assert acl.himpi.venc_get_qpmap_stride(1920) == 128
    assert acl.himpi.venc_get_qpmap_size(96, 1920, 1080) == 128 * 68
    assert acl.himpi.venc_get_qpmap_size(26, 1920, 1080) == 0
    assert acl.himpi.venc_get_qpmap_stride(0) == 0


# ---- waiting ---------------------------------------------------------------------------------------------------------


def test_the_printed_way_with_epoll() -> None:
    open_encoder(0, "h265", W, H)
    fd = acl.himpi.venc_get_fd(0)
    epoll = ok(acl.himpi.sys_create_epoll(10))
    ok(acl.himpi.sys_ctl_epoll(epoll, 1, fd, {"data": fd, "events": 1}))
    ok(acl.himpi.venc_send_frame(0, frame_of(put(picture(0)), W, H), 0))
    events, count = ok(acl.himpi.sys_wait_epoll(epoll, 3, LIMIT_MS))
    assert count == 1 and events[0] == {"events": 1, "data": fd} and len(events) == 3
    status = ok(acl.himpi.venc_query_status(0))
    assert status["cur_packs"] == 1 and status["left_stream_frames"] == 1 and status["left_stream_bytes"] > 0
    take(0, count=status["cur_packs"])
    assert ok(acl.himpi.sys_wait_epoll(epoll, 3, 0))[1] == 0
    ok(acl.himpi.sys_ctl_epoll(epoll, 3, fd, {}))
    ok(acl.himpi.sys_close_epoll(epoll))
    ok(acl.himpi.venc_close_fd(0))


def test_the_descriptor_waits_for_so_many_frames() -> None:
    open_encoder(0, "h264", W, H)
    ok(acl.himpi.venc_set_chn_param(0, {"poll_wake_up_frame_cnt": 2}))
    fd, address = acl.himpi.venc_get_fd(0), put(picture(0))
    ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H), 0))
    assert select.select([fd], [], [], 0.3)[0] == []
    ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H), 0))
    assert select.select([fd], [], [], WAIT)[0] == [fd]
    take(0)
    assert select.select([fd], [], [], 0)[0] == []
    take(0)


def test_streams_that_are_not_released_stop_the_encoder() -> None:
    open_encoder(0, "h264", W, H, rate_control("h264", "fixqp", i_qp=0, p_qp=0), buf_size=32768)
    noise = np.random.default_rng(1).integers(0, 256, (H * 3 // 2, W), np.uint8)
    address = put(noise)
    codes = []
    for _ in range(200):
        codes.append(acl.himpi.venc_send_frame(0, frame_of(address, W, H), 500))  # time enough for one that still works
        if codes[-1]:
            break
    assert codes[-1] == VENC + 13
    assert "release" in message() or "wait" in message()
    held = ok(acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, LIMIT_MS))
    ok(acl.himpi.venc_release_stream(0, held))
    while acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, 0)[1] == 0:
        pass
    ok(acl.himpi.venc_destroy_chn(0))


def test_destroying_wakes_who_waits() -> None:
    open_encoder(0, "h264", W, H)
    thread, answers = blocked(lambda: acl.himpi.venc_get_stream(0, {"pack_cnt": 1, "mine": 5}, -1))
    thread.join(0.1)
    assert not answers
    ok(acl.himpi.venc_destroy_chn(0))
    woken(thread)
    assert answers == [({"pack_cnt": 1, "mine": 5}, VENC + 5)]  # the given dict comes back


def test_channels_side_by_side() -> None:
    results: dict[int, int] = {}

    def run(number: int) -> None:
        open_encoder(number, CODECS[number % 2], W, H)
        results[number] = len(decoded(CODECS[number % 2], joined(encode(number, 6))))
        ok(acl.himpi.venc_destroy_chn(number))

    threads = [blocked(lambda n=n: run(n))[0] for n in range(4)]
    for thread in threads:
        woken(thread)
    assert results == dict.fromkeys(range(4), 6)


def test_nothing_is_left_behind() -> None:
    def cycle(chn: int) -> None:
        open_encoder(chn, "h264", W, H)
        acl.himpi.venc_get_fd(chn)
        encode(chn, 2)
        address = put(picture(0))
        ok(acl.himpi.venc_send_frame(chn, frame_of(address, W, H), 0))
        ok(acl.himpi.venc_get_stream(chn, {"pack_cnt": 1}, LIMIT_MS))  # never released
        ok(acl.himpi.dvpp_free(address))
        ok(acl.himpi.venc_destroy_chn(chn))

    cycle(0)
    before = (descriptors(), threading.active_count(), used())
    for number in range(8):
        cycle(number)
    assert (descriptors(), threading.active_count(), used()) == before


# ---- misuse ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"type": 1002}, 8), ({"type": 3}, 8), ({"pic_width": 0}, 3), ({"pic_width": W + 2}, 3), ({"pic_height": 127}, 3),
        ({"buf_size": 0}, 3), ({"buf_size": 32768 + 1}, 3), ({"buf_size": 16384}, 3), ({"profile": 3}, 8), ({"is_by_frame": 2}, 3),
    ],
)  # fmt: skip
def test_wrong_attributes_are_refused(change: Dict, code: int) -> None:
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", W, H, **change)) == VENC + code
    open_encoder(0, "h264", W, H)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"gop": 0}, 3), ({"gop": 65537}, 3), ({"stats_time": 61}, 3), ({"src_frame_rate": 241}, 3), ({"dst_frame_rate": 31}, 3),
        ({"max_bit_rate": 1}, 3), ({"max_bit_rate": 614401}, 3),
    ],
)  # fmt: skip
def test_wrong_rate_controls_are_refused(change: Dict, code: int) -> None:
    rc = rate_control("h264", **change)
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", W, H, rc)) == VENC + code


def test_rate_control_that_does_not_fit() -> None:
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", W, H, rate_control("h265"))) == VENC + 3
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", W, H, {"rc_mode": 0})) == VENC + 3
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", W, H, {"rc_mode": 7})) == VENC + 8
    with pytest.raises(TypeError):
        acl.himpi.venc_create_chn(0, encode_attr("h264", W, H, {"rc_mode": 2}))
    bad = {**encode_attr("h264", W, H), "gop_attr": {"gop_mode": 4}}
    assert acl.himpi.venc_create_chn(0, bad) == VENC + 8
    bad["gop_attr"] = {"gop_mode": 0, "normal_p": {"ip_qp_delta": 31}}
    assert acl.himpi.venc_create_chn(0, bad) == VENC + 3


def test_every_mistake_with_a_channel_has_its_code() -> None:
    assert acl.himpi.venc_start_chn(0, {"recv_pic_num": -1}) == VENC + 5
    assert acl.himpi.venc_create_chn(1000, encode_attr("h264", W, H)) == VENC + 2
    ok(acl.himpi.venc_create_chn(0, encode_attr("h264", W, H)))
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", W, H)) == VENC + 4
    address = put(picture(0))
    assert acl.himpi.venc_send_frame(0, frame_of(address, W, H), 0) == VENC + 9
    assert acl.himpi.venc_start_chn(0, {"recv_pic_num": 0}) == VENC + 3
    ok(acl.himpi.venc_start_chn(0, {"recv_pic_num": 1}))
    ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H), 0))
    assert acl.himpi.venc_send_frame(0, frame_of(address, W, H), 0) == VENC + 9
    assert acl.himpi.venc_get_stream(0, {"pack_cnt": 0}, 0) == ({"pack_cnt": 0}, VENC + 3)
    assert acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, -2)[1] == VENC + 3
    take(0)
    assert acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, 20)[1] == VENC + 20
    ok(acl.himpi.venc_stop_chn(0))
    ok(acl.himpi.venc_destroy_chn(0))
    assert acl.himpi.venc_destroy_chn(0) == VENC + 5


def test_wrong_pictures_are_refused() -> None:
    open_encoder(0, "h264", W, H)
    address = put(picture(0))
    send = acl.himpi.venc_send_frame
    assert send(0, frame_of(address, W - 2, H), 0) == VENC + 3
    assert send(0, frame_of(0, W, H), 0) == VENC + 3
    assert send(0, frame_of(4711, W, H), 0) == VENC + 3
    assert send(0, frame_of(address, W, H, width_stride=[W - 1, 0, 0]), 0) == VENC + 3
    assert send(0, frame_of(address, W, H, width_stride=[1 << 20, 0, 0]), 0) == VENC + 3
    assert send(0, frame_of(address, W, H, pixel_format=4711), 0) == VENC + 3
    assert send(0, frame_of(address, W, H, compress_mode=3), 0) == VENC + 8
    assert send(0, frame_of(address, W, H), -7) == VENC + 3
    assert send(0, {}, 0) == VENC + 3
    assert acl.himpi.venc_send_jpege_frame(0, frame_of(address, W, H), {"addr": address, "len": 10}, 0) == VENC + 8
    with pytest.raises(TypeError):
        send(0, {"v_frame": 5}, 0)
    ok(send(0, frame_of(address, W, H, NV12), 0))
    take(0)


@pytest.mark.parametrize(("soc", "code"), [("Ascend910B1", 8), ("Ascend310P3", 0)])
def test_strict_chips_without_the_engine_refuse(soc: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", soc)
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.himpi.sys_init())
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", W, H)) == (VENC + code if code else 0)
    assert acl.himpi.venc_create_chn(1, encode_attr("jpeg", W, H)) == 0
