"""JPEG decoding of acl.himpi, against FFmpeg and Pillow."""

from __future__ import annotations

import io
import threading
from typing import Any

import av
import numpy as np
import pytest
import simplejpeg
from PIL import Image

import acl
from tests.faces.acl.media.v2.coder_support import (
    JPEG,
    LIMIT_MS,
    NV12,
    NV21,
    PNG,
    RGB,
    UNKNOWN,
    VDEC,
    Got,
    blocked,
    channel_attr,
    flush,
    open_decoder,
    output,
    packet,
    send,
    woken,
)
from tests.faces.acl.media.v2.support import smooth
from tests.support import message, ok

pytestmark = pytest.mark.usefixtures("himpi")
RAW = {"444": 0, "422": 1, "420": 2, "440": 3, "gray": 4}
NATIVE = {"444": 6, "422": 4, "420": NV21, "440": 1001, "gray": NV21}
FACTOR = {0: 2, NV12: 3, NV21: 3, 3: 4, 4: 4, 1000: 4, 1001: 4, 5: 6, 6: 6, RGB: 6}  # halves of the strides' product


def up(value: int, unit: int) -> int:
    """Rounded up."""
    return -(-value // unit) * unit


def jpeg(width: int, height: int, sampling: str = "420", **more: Any) -> bytes:
    """A file."""
    picture = smooth(height, width, 3)
    if sampling == "gray":
        return simplejpeg.encode_jpeg(picture[:, :, :1].copy(), 92, "GRAY", "Gray", **more)
    return simplejpeg.encode_jpeg(picture, 92, "RGB", sampling, **more)


def pillow(width: int, height: int, **more: Any) -> bytes:
    """A file with what only Pillow writes: progressive, orientation."""
    file = io.BytesIO()
    Image.fromarray(smooth(height, width, 3)).save(file, "JPEG", quality=92, **more)
    return file.getvalue()


def turned(width: int, height: int, orientation: int) -> bytes:
    """A file with an orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return pillow(width, height, exif=exif.tobytes())


def planes(file: bytes) -> list[np.ndarray[Any, Any]]:
    """Y, U, V as FFmpeg decodes them."""
    (frame,) = av.CodecContext.create("mjpeg", "r").decode(av.Packet(file))
    return [
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        for plane in frame.planes
    ]


def parts(got: Got) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Luma and chroma pairs of a semi-planar result, with their padding cut off by the caller."""
    stride, rows = got.frame["width_stride"][0], got.frame["height_stride"][0]
    whole = np.frombuffer(got.data, np.uint8)
    luma = whole[: stride * rows].reshape(rows, stride)
    chroma = whole[stride * rows :].reshape(got.frame["height_stride"][1], -1, 2)
    return luma, chroma


def info_of(file: bytes, payload: int = JPEG) -> dict[str, Any]:
    """What the header says; the address is one of the host."""
    stream = {"len": len(file), "addr": acl.util.bytes_to_ptr(file)}
    info: dict[str, Any] = ok(acl.himpi.dvpp_get_image_info(payload, stream))
    return info


def decode(file: bytes, **more: Any) -> Got:
    """As the manual does it: ask for the size, allocate, send, get."""
    info = info_of(file)
    keys = ("width", "height", "width_stride", "height_stride")
    wanted = {**{key: info[key] for key in keys}, "pixel_format": UNKNOWN, **more}
    assert send(0, file, more.pop("room", info["img_buf_size"] * 2), 5, **wanted) == 0
    return Got(0)


@pytest.fixture
def chn(himpi: None) -> int:
    open_decoder(0, JPEG, 4096, 4096)
    return 0


@pytest.mark.parametrize("size", [(96, 64), (641, 479), (130, 66)])
@pytest.mark.parametrize("sampling", list(RAW))
def test_a_header_tells_size_and_sampling(sampling: str, size: tuple[int, int]) -> None:
    width, height = size
    info = info_of(jpeg(width, height, sampling))
    assert (info["width"], info["height"], info["pixel_format"]) == (width, height, RAW[sampling])
    assert (info["width_stride"], info["height_stride"]) == (up(width, 64), up(height, 16))
    assert info["img_buf_size"] == up(width, 64) * up(height, 16) * FACTOR[NATIVE[sampling]] // 2


@pytest.mark.parametrize("sampling", ["444", "422", "420", "440"])
def test_the_format_of_the_file(chn: int, sampling: str) -> None:
    file = jpeg(192, 128, sampling)
    got = decode(file)
    y, u, v = planes(file)
    luma, chroma = parts(got)
    assert (got.flag, got.pts, got.info["mod_id"]) == (0, 5, 14)
    assert (got.frame["width"], got.frame["height"], got.frame["pixel_format"]) == (192, 128, NATIVE[sampling])
    assert np.abs(luma[:128, :192].astype(int) - y).max() <= 1
    rows, columns = v.shape
    assert np.abs(chroma[:rows, :columns, 0].astype(int) - v).max() <= 1  # V stands first
    assert np.abs(chroma[:rows, :columns, 1].astype(int) - u).max() <= 1


def test_grey_has_chroma_of_one_value(chn: int) -> None:
    file = jpeg(64, 64, "gray")
    luma, chroma = parts(decode(file))
    assert np.abs(luma[:64, :64].astype(int) - planes(file)[0]).max() <= 1
    assert (chroma[:32, :32] == 0x80).all()


def test_pictures_are_decoded_to_nv12_and_rgb(chn: int) -> None:
    file = jpeg(256, 128)
    luma, chroma = parts(decode(file, pixel_format=NV12))
    y, u, v = planes(file)
    assert np.abs(luma[:128, :256].astype(int) - y).max() <= 1
    assert np.abs(chroma[:64, :128].astype(int) - np.stack([u, v], -1)).max() <= 1
    file = jpeg(256, 128, "444")
    got = decode(file, pixel_format=RGB, width_stride=0, height_stride=0)
    assert got.frame["width_stride"][0] == 256 * 3
    pixels = np.frombuffer(got.data, np.uint8).reshape(128, 256, 3)
    wanted = np.asarray(Image.open(io.BytesIO(file)))
    assert np.abs(pixels.astype(int) - wanted).max() <= 3


@pytest.mark.parametrize(
    ("mode", "sampling", "form", "wanted"),
    [
        (0, "420", NV12, (130, 98)),
        (1, "420", NV12, (132, 100)),
        (2, "420", NV12, (130, 98)),
        (0, "422", 3, (130, 99)),
        (1, "422", 3, (132, 99)),
        (2, "422", 3, (130, 98)),
        (0, "440", 1000, (131, 98)),
        (0, "444", 5, (131, 99)),
        (1, "444", 5, (131, 99)),
    ],
)
def test_pictures_with_odd_sides_are_decoded(mode: int, sampling: str, form: int, wanted: tuple[int, int]) -> None:
    ok(acl.himpi.vdec_create_chn(0, channel_attr(JPEG, 1024, 1024)))
    ok(acl.himpi.vdec_set_jpegd_precision_mode(0, mode))
    ok(acl.himpi.vdec_start_recv_stream(0))
    file = jpeg(131, 99, sampling)
    got = decode(file, pixel_format=form)
    assert (got.flag, got.frame["width"], got.frame["height"]) == (0, *wanted)
    width, height = min(131, wanted[0]), min(99, wanted[1])
    luma = parts(got)[0]
    assert np.abs(luma[:height, :width].astype(int) - planes(file)[0][:height, :width]).max() <= 1
    assert acl.himpi.vdec_set_jpegd_precision_mode(0, 1) == VDEC + 9


def test_precision_modes_that_are_not_there() -> None:
    ok(acl.himpi.vdec_create_chn(0, channel_attr(JPEG, 1024, 1024)))
    assert acl.himpi.vdec_set_jpegd_precision_mode(0, 3) == VDEC + 3
    assert acl.himpi.vdec_set_jpegd_precision_mode(1, 0) == VDEC + 5


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_the_orientation_is_applied(chn: int, orientation: int) -> None:
    file = turned(192, 96, orientation)
    info = info_of(file)
    got = decode(file, pixel_format=NV12)
    turns = {3: 2, 6: 3, 8: 1}[orientation]
    wanted = np.rot90(planes(file)[0], turns)
    assert (info["height"], info["width"]) == wanted.shape == (got.frame["height"], got.frame["width"])
    luma = parts(got)[0][: wanted.shape[0], : wanted.shape[1]]
    assert np.abs(luma.astype(int) - wanted).max() <= 1


def test_the_output_in_a_chosen_format() -> None:
    file = jpeg(131, 99, "422")
    stream = packet(file)  # memory of the device will do, too
    info = ok(acl.himpi.vdec_get_jpegd_output_info(stream, NV12))
    assert (info["width"], info["height"], info["pixel_format"]) == (130, 98, NV12)
    assert (info["width_stride"], info["height_stride"], info["img_buf_size"]) == (192, 112, 192 * 112 * 3 // 2)
    assert ok(acl.himpi.vdec_get_jpegd_output_info(stream, UNKNOWN))["pixel_format"] == 4
    zeros, ret = acl.himpi.vdec_get_jpegd_output_info(stream, 4711)
    assert ret == VDEC + 8 and zeros["width"] == 0 and len(zeros["reserved"]) == 4
    assert acl.himpi.vdec_get_jpegd_output_info({}, NV12)[1] == VDEC + 3


def test_a_header_of_png_is_read_too() -> None:
    file = io.BytesIO()
    Image.fromarray(smooth(50, 70, 4)).save(file, "PNG")
    info = info_of(file.getvalue(), PNG)
    assert (info["width"], info["height"], info["pixel_format"]) == (70, 50, 6)
    assert (info["width_stride"], info["height_stride"], info["img_buf_size"]) == (128 * 4, 64, 128 * 4 * 64)


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (b"\xff\xd8 no file at all", 3),
        (b"\x89PNG\r\n", 3),
        (jpeg(64, 64)[:80], 3),
        (pillow(64, 64, progressive=True), 8),
    ],
    ids=["rubbish", "other", "cut", "progressive"],
)
def test_headers_that_are_refused(file: bytes, code: int) -> None:
    stream = {"len": len(file), "addr": acl.util.bytes_to_ptr(file)}
    info, ret = acl.himpi.dvpp_get_image_info(JPEG, stream)
    assert ret == VDEC + code and info["width"] == 0
    assert acl.himpi.dvpp_get_image_info(96, stream)[1] == VDEC + 8  # H.264 has no such header


def test_files_that_cannot_be_decoded_come_back_failed(chn: int) -> None:
    good = jpeg(64, 64)
    files = [good, pillow(64, 64, progressive=True), b"no file at all", good[: len(good) // 2], good]
    for number, file in enumerate(files):
        assert send(0, file, 64 * 64 * 2, number, pixel_format=NV12) == 0
    frames = [Got(0) for _ in files]
    assert [frame.pts for frame in frames] == [0, 1, 2, 3, 4]
    assert [frame.flag for frame in frames] == [0, 1, 1, 1, 0]
    errors = ok(acl.himpi.vdec_query_status(0))["dec_err"]
    assert errors["stream_unsupport"] == 1 and errors["format_err"] == 2


def test_a_small_output_is_a_failed_frame(chn: int) -> None:
    assert send(0, jpeg(128, 128), 100, pixel_format=NV12) == 0
    assert Got(0).flag == 1
    assert ok(acl.himpi.vdec_query_status(0))["dec_err"]["set_pic_buf_size_err"] == 1


def test_no_display_and_the_end_of_stream(chn: int) -> None:
    stream = packet(jpeg(64, 64), need_display=0)
    ok(acl.himpi.vdec_send_stream(0, stream, {}, 0))
    flush(0)
    got = Got(0)
    assert (got.flag, got.address, got.stream["addr"]) == (0, 0, stream["addr"])
    assert acl.himpi.vdec_get_frame(0, 0)[3] == VDEC + 14


def test_parameters_of_pictures_are_set_while_the_channel_rests(chn: int) -> None:
    param = ok(acl.himpi.vdec_get_chn_param(0))
    param["pic_param"] = {"pixel_format": NV12, "alpha": 255}
    assert acl.himpi.vdec_set_chn_param(0, param) == VDEC + 9
    ok(acl.himpi.vdec_stop_recv_stream(0))
    ok(acl.himpi.vdec_set_chn_param(0, param))
    assert ok(acl.himpi.vdec_get_chn_param(0))["pic_param"] == {"pixel_format": NV12, "alpha": 255}
    assert acl.himpi.vdec_set_chn_param(0, {"pic_param": {"alpha": 256}}) == VDEC + 3
    assert acl.himpi.vdec_set_chn_param(0, {"type": 96}) == VDEC + 3


def test_channels_side_by_side() -> None:
    files = {number: jpeg(320 + 64 * number, 240) for number in range(4)}
    results: dict[int, list[int]] = {}

    def run(number: int) -> None:
        open_decoder(number, JPEG, 1024, 1024)
        wanted = planes(files[number])[0]
        differences = []
        for _ in range(10):
            assert send(number, files[number], 1024 * 256 * 3, pixel_format=NV12) == 0
            luma = parts(Got(number))[0][: wanted.shape[0], : wanted.shape[1]]
            differences.append(int(np.abs(luma.astype(int) - wanted).max()))
        ok(acl.himpi.vdec_destroy_chn(number))
        results[number] = differences

    threads = [blocked(lambda n=n: run(n))[0] for n in files]
    for thread in threads:
        woken(thread)
    assert len(results) == 4 and max(map(max, results.values())) <= 1
    assert threading.active_count() < 20


@pytest.mark.parametrize(("sampling", "form", "code"), [("420", NV12, 0), ("420", 5, 1), ("444", 5, 0)])
def test_a_strict_chip_refuses_formats_it_cannot_decode(
    sampling: str, form: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend310P3")
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.himpi.sys_init())
    open_decoder(0, JPEG, 256, 256)
    picture = output(256 * 256 * 3, pixel_format=form)
    ok(acl.himpi.vdec_send_stream(0, packet(jpeg(256, 256, sampling)), picture, LIMIT_MS))
    info, _, _, ret = acl.himpi.vdec_get_frame(0, LIMIT_MS)
    assert (ret, info["v_frame"]["frame_flag"]) == (0, code)


def test_words_about_what_is_wrong() -> None:
    file = pillow(64, 64, progressive=True)
    acl.himpi.dvpp_get_image_info(JPEG, {"len": len(file), "addr": acl.util.bytes_to_ptr(file)})
    assert "progressive" in message()
