"""JPEG encoding of acl.himpi: the files are read by libjpeg and FFmpeg."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

import acl
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
    take,
    used,
    woken,
)
from tests.faces.acl.media.v2.support import Array, fetch, put, smooth
from tests.support import ok

pytestmark = pytest.mark.usefixtures("himpi")
W, H = 192, 128
OWN = 0xFFFFFFFF
YUYV, UYVY, YVYU, VYUY = 7, 8, 9, 10
ORDERS = {YUYV: "yuyv422", UYVY: "uyvy422", YVYU: "yvyu422"}


def picture(form: int = NV12, width: int = W, height: int = H) -> Array:
    """A smooth picture, with its planes in the order of memory."""
    luma, u, v = smooth(height, width), smooth(height // 2, width // 2), smooth(height // 2, width // 2)[::-1]
    if form in (NV12, NV21):
        pair = (u, v) if form == NV12 else (v, u)
        return np.concatenate([luma, np.stack(pair, -1).reshape(height // 2, width)])
    chroma = {"u": smooth(height, width // 2), "v": smooth(height, width // 2)[::-1]}
    names = {YUYV: "yuyv", UYVY: "uyvy", YVYU: "yvyu", VYUY: "vyuy"}[form]
    lumas = iter((luma[:, 0::2], luma[:, 1::2]))
    return np.stack([next(lumas) if name == "y" else chroma[name] for name in names], -1).reshape(height, width * 2)


def planes(file: bytes) -> list[Array]:
    """Y, U, V as FFmpeg decodes them."""
    (frame,) = av.CodecContext.create("mjpeg", "r").decode(av.Packet(file))
    return [
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        for plane in frame.planes
    ]


def markers(file: bytes) -> list[int]:
    """The markers before the picture data."""
    kinds, at = [], 2
    while not kinds or kinds[-1] != 0xDA:
        kinds.append(file[at + 1])
        at += 2 + int.from_bytes(file[at + 2 : at + 4], "big")
    return kinds


def encode(form: int = NV12, chn: int = 0) -> bytes:
    """A picture through the channel."""
    address = put(picture(form))
    ok(acl.himpi.venc_send_frame(chn, frame_of(address, W, H, form, pts=9), LIMIT_MS))
    stream, (file,) = take(chn)
    assert stream["pack"][0]["input_addr"] == address and stream["pack"][0]["pts"] == 9
    ok(acl.himpi.dvpp_free(address))
    return file


def set_jpeg(**values: Any) -> Dict:
    """Change the JPEG parameters of channel 0."""
    param = ok(acl.himpi.venc_get_jpeg_param(0))
    param.update(values)
    ok(acl.himpi.venc_set_jpeg_param(0, param))
    assert ok(acl.himpi.venc_get_jpeg_param(0)) == param
    return dict(param)


@pytest.fixture
def chn(himpi: None) -> int:
    open_encoder(0, "jpeg", W, H)
    return 0


@pytest.mark.parametrize("form", [NV12, NV21, YUYV, UYVY, YVYU, VYUY])
def test_the_picture_comes_back(chn: int, form: int) -> None:
    set_jpeg(qfactor=100)
    file = encode(form)
    image = Image.open(io.BytesIO(file))
    assert image.format == "JPEG" and image.size == (W, H) and not image.info.get("progressive")
    decoded_planes = planes(file)
    source = picture(form)
    if form in (NV12, NV21):
        pairs = source[H:].reshape(H // 2, W // 2, 2)[..., :: 1 if form == NV12 else -1]
        wanted = [source[:H], pairs[..., 0], pairs[..., 1]]
    else:
        names = {YUYV: "yuyv", UYVY: "uyvy", YVYU: "yvyu", VYUY: "vyuy"}[form]
        items = source.reshape(H, W // 2, 4)
        luma = [index for index, name in enumerate(names) if name == "y"]
        wanted = [items[..., luma].reshape(H, W), items[..., names.index("u")], items[..., names.index("v")]]
    for plane, want in zip(decoded_planes, wanted, strict=True):
        assert plane.shape == want.shape and np.abs(plane.astype(int) - want).max() <= 4


def test_quality_is_that_of_libjpeg(chn: int) -> None:
    assert ok(acl.himpi.venc_get_jpeg_param(0))["qfactor"] == 90
    files = {}
    for quality in (30, 75, 95):
        set_jpeg(qfactor=quality)
        files[quality] = encode()
        buffer = io.BytesIO()
        Image.new("RGB", (16, 16)).save(buffer, "JPEG", quality=quality)
        wanted = Image.open(io.BytesIO(buffer.getvalue())).quantization
        assert Image.open(io.BytesIO(files[quality])).quantization == wanted
    assert len(files[30]) < len(files[75]) < len(files[95])


def test_tables_of_the_program(chn: int) -> None:
    luma, blue, red = [3] * 64, [5] * 64, list(range(4, 68))
    set_jpeg(qfactor=OWN, y_qt=luma, cb_qt=blue, cr_qt=red)
    file = encode()
    tables = Image.open(io.BytesIO(file)).quantization
    assert sorted(map(tuple, tables.values())) == sorted(map(tuple, (luma, blue, red)))
    assert np.abs(planes(file)[0].astype(int) - picture()[:H]).max() <= 6
    param = ok(acl.himpi.venc_get_jpeg_param(0))
    param["y_qt"] = [0] * 64
    assert acl.himpi.venc_set_jpeg_param(0, param) == VENC + 3
    param.update(qfactor=101)
    assert acl.himpi.venc_set_jpeg_param(0, param) == VENC + 3
    with pytest.raises(ValueError):
        acl.himpi.venc_set_jpeg_param(0, {"qfactor": 50, "y_qt": [1] * 65})


def test_huffman_tables_of_the_program(chn: int) -> None:
    huffman = ok(acl.himpi.venc_get_jpeg_huffman_param(0))
    assert len(huffman["dc_tables"]) == len(huffman["ac_tables"]) == 3
    assert huffman["dc_tables"][0]["dc_bits"][:5] == [0, 1, 5, 1, 1] and len(huffman["ac_tables"][2]["ac_value"]) == 162
    before = encode()
    ok(acl.himpi.venc_set_jpeg_huffman_param(0, huffman))
    assert encode() == before  # those are the standard's
    flat = {"dc_bits": [0, 0, 0, 12] + [0] * 12, "dc_value": list(range(12))}
    huffman["dc_tables"] = [flat] * 3
    ok(acl.himpi.venc_set_jpeg_huffman_param(0, huffman))
    assert ok(acl.himpi.venc_get_jpeg_huffman_param(0)) == huffman
    file = encode()
    assert bytes([0, 0, 0, 12]) in file and file != before
    assert np.abs(planes(file)[0].astype(int) - picture()[:H]).max() <= 8
    huffman["dc_tables"] = [{"dc_bits": [9] + [0] * 15, "dc_value": list(range(12))}] * 3
    assert acl.himpi.venc_set_jpeg_huffman_param(0, huffman) == VENC + 3
    huffman["dc_tables"] = []
    assert acl.himpi.venc_set_jpeg_huffman_param(0, huffman) == VENC + 3


def test_restart_markers_are_written_when_asked(chn: int) -> None:
    plain = encode()
    set_jpeg(mcu_per_ecs=12)
    file = encode()
    assert 0xDD in markers(file) and b"\xff\xd0" in file and b"\xff\xd0" not in plain
    assert np.abs(planes(file)[0].astype(int) - picture()[:H]).max() <= 8


def test_tables_are_merged_when_asked(chn: int) -> None:
    plain = encode()
    ok(acl.himpi.venc_compact_jpeg_tables(0, 0, 1))
    file = encode()
    assert markers(plain).count(0xC4) > 1 and [markers(file).count(marker) for marker in (0xDB, 0xC4)] == [1, 1]
    assert all(np.array_equal(a, b) for a, b in zip(planes(file), planes(plain), strict=True))
    assert acl.himpi.venc_compact_jpeg_tables(0, 1, 1) == VENC + 3
    ok(acl.himpi.venc_compact_jpeg_tables(0, 0, 0))
    assert encode() == plain


def test_packets_of_parameters_and_data() -> None:
    open_encoder(0, "jpeg", W, H, is_by_frame=0)
    ok(acl.himpi.venc_send_frame(0, frame_of(put(picture()), W, H), LIMIT_MS))
    (_, (head,)), (stream, (body,)) = take(0, count=1), take(0, count=1)
    assert head[:2] == b"\xff\xd8" and body[:2] == b"\xff\xda" and body[-2:] == b"\xff\xd9"
    assert stream["pack"][0]["is_frame_end"] == 1
    assert Image.open(io.BytesIO(head + body)).size == (W, H)


def test_smaller_pictures_grey_and_crop(chn: int) -> None:
    address = put(picture(width=96, height=64))
    ok(acl.himpi.venc_send_frame(0, frame_of(address, 96, 64), LIMIT_MS))
    assert Image.open(io.BytesIO(take(0)[1][0])).size == (96, 64)
    ok(acl.himpi.venc_set_chn_param(0, {"color_to_grey_en": 1}))
    assert all(np.abs(plane.astype(int) - 128).max() <= 1 for plane in planes(encode())[1:])
    assert all(np.abs(plane.astype(int) - 128).max() <= 1 for plane in planes(encode(UYVY))[1:])
    crop = {"enable": 1, "rect": {"x": 64, "y": 32, "width": 64, "height": 64}}
    ok(acl.himpi.venc_set_chn_param(0, {"crop_info": crop}))
    luma = planes(encode())[0]
    assert luma.shape == (64, 64) and np.abs(luma.astype(int) - picture()[32:96, 64:128]).max() <= 8
    crop["rect"]["x"] = 1000
    ok(acl.himpi.venc_set_chn_param(0, {"crop_info": crop}))
    address = put(picture())
    assert acl.himpi.venc_send_frame(0, frame_of(address, W, H), 0) == VENC + 3


# ---- output memory of the program ------------------------------------------------------------------------------------


def test_the_program_owns_the_output() -> None:
    open_encoder(0, "jpeg", W, H, buf_size=0)
    address = put(picture())
    frame = frame_of(address, W, H, pts=3)
    size = ok(acl.himpi.venc_get_jpege_predicted_size(frame, {"qfactor": 100}))
    target = ok(acl.himpi.dvpp_malloc(0, size))
    ok(acl.himpi.venc_send_jpege_frame(0, frame, {"type": 26, "addr": target, "len": size}, LIMIT_MS))
    stream = ok(acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, LIMIT_MS))
    (pack,) = stream["pack"]
    assert (pack["addr"], pack["input_addr"], pack["pts"]) == (target, address, 3) and 0 < pack["len"] <= size
    file = fetch(target, pack["len"]).tobytes()
    assert 0xFE in markers(file)  # the comment that this way has
    assert np.abs(planes(file)[0].astype(int) - picture()[:H]).max() <= 8
    ok(acl.himpi.venc_release_stream(0, stream))
    assert fetch(target, pack["len"]).tobytes() == file  # still the program's
    ok(acl.himpi.dvpp_free(target))
    assert acl.himpi.venc_send_frame(0, frame, 0) == VENC + 8


def test_output_memory_that_is_too_small() -> None:
    open_encoder(0, "jpeg", W, H, buf_size=0)
    address, target = put(picture()), ok(acl.himpi.dvpp_malloc(0, 4096))
    ok(acl.rt.memset(target, 4096, 0x55, 4096))
    send = acl.himpi.venc_send_jpege_frame
    ok(send(0, frame_of(address, W, H), {"addr": target, "len": 100}, LIMIT_MS))
    stream = ok(acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, LIMIT_MS))
    assert (
        stream["pack"][0]["len"] == 0 and stream["pack"][0]["input_addr"] == address
    )  # the manual's sign of a failure
    ok(acl.himpi.venc_release_stream(0, stream))
    assert (fetch(target, 4096) == 0x55).all()
    assert send(0, frame_of(address, W, H), {"addr": 0, "len": 100}, 0) == VENC + 3
    assert send(0, frame_of(address, W, H), {"addr": target, "len": 1 << 30}, 0) == VENC + 3


@pytest.mark.parametrize("form", [NV12, YUYV])
def test_the_predicted_size_is_enough_for_noise(form: int) -> None:
    open_encoder(0, "jpeg", W, H, buf_size=0)
    noise = np.random.default_rng(5).integers(0, 2, (H * 2, W * 2), np.uint8) * 255
    frame = frame_of(put(noise), W, H, form)
    size = ok(acl.himpi.venc_get_jpege_predicted_size(frame, {"qfactor": 100}))
    set_jpeg(qfactor=100)
    target = ok(acl.himpi.dvpp_malloc(0, size))
    ok(acl.himpi.venc_send_jpege_frame(0, frame, {"addr": target, "len": size}, LIMIT_MS))
    stream, _ = take(0)
    assert 0 < stream["pack"][0]["len"] <= size
    assert acl.himpi.venc_get_jpege_predicted_size(frame_of(1, W, H, 12), {})[1] == VENC + 3


# ---- misuse and life -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"), [({"buf_size": 100}, 3), ({"buf_size": 1024}, 3), ({"max_pic_width": 0}, 3)]
)
def test_wrong_attributes_are_refused(change: Dict, code: int) -> None:
    assert acl.himpi.venc_create_chn(0, encode_attr("jpeg", W, H, **change)) == VENC + code


def test_what_is_for_video_only(chn: int) -> None:
    assert acl.himpi.venc_request_idr(0, 1) == VENC + 8
    for name in ("cu_pred", "h264_vui", "h265_vui", "intra_refresh", "ref_param", "slice_split", "rc_param"):
        assert getattr(acl.himpi, f"venc_set_{name}")(0, {}) == VENC + 8
    values, ret = acl.himpi.venc_get_rc_param(0, 2)
    assert ret == VENC + 8 and len(values["threshold_i"]) == 16
    assert acl.himpi.venc_set_scene_mode(0, 0) == VENC + 8
    open_encoder(1, "h264", W, H)
    assert acl.himpi.venc_set_jpeg_param(1, {"qfactor": 50}) == VENC + 8
    assert acl.himpi.venc_compact_jpeg_tables(1, 0, 1) == VENC + 8
    address = put(picture())
    assert acl.himpi.venc_send_frame(0, frame_of(address, W + 2, H), 0) == VENC + 3
    zeros, ret = acl.himpi.venc_get_jpeg_huffman_param(1)
    assert ret == VENC + 8 and zeros["reserved"] == [0, 0]


def test_many_pictures_in_their_order(chn: int) -> None:
    address = put(picture())
    for index in range(30):
        ok(acl.himpi.venc_send_frame(0, frame_of(address, W, H, pts=index), LIMIT_MS))
    streams = [take(0)[0] for _ in range(30)]
    assert [stream["pack"][0]["pts"] for stream in streams] == list(range(30))
    assert [stream["seq"] for stream in streams] == list(range(30))
    assert ok(acl.himpi.venc_query_status(0))["stream_info"]["pic_cnt"] == 30


def test_channels_side_by_side_and_nothing_left() -> None:
    sizes: dict[int, set[int]] = {}

    def run(number: int) -> None:
        open_encoder(number, "jpeg", W, H)
        sizes[number] = {len(encode(chn=number)) for _ in range(5)}
        ok(acl.himpi.venc_destroy_chn(number))

    run(0)
    before = used()
    threads = [blocked(lambda n=n: run(n))[0] for n in range(4)]
    for thread in threads:
        woken(thread)
    assert len(sizes) == 4 and all(size == sizes[0] for size in sizes.values())
    assert used() == before
