"""acl.media: JPEG decoding and encoding. Numbers come from Pillow and FFmpeg."""

from __future__ import annotations

import io
import struct
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

import acl
from tests.faces.acl.media.v1.support import (
    NV12,
    NV21,
    RGB,
    UNKNOWN,
    YUYV,
    Array,
    Pic,
    channel,
    download,
    nv12,
    up,
    upload,
)
from tests.support import Hold, in_thread, message, ok

pytestmark = pytest.mark.usefixtures("runtime")
media = acl.media
SAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


def picture(width: int, height: int) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    values = np.stack([128 + 90 * np.sin(x / 19), 128 + 80 * np.cos(y / 23), 255 * x / width], axis=2)
    return Image.fromarray(values.astype(np.uint8))


def jpeg(width: int, height: int, sampling: str = "4:2:0", **options: Any) -> bytes:
    out = io.BytesIO()
    picture(width, height).save(out, "JPEG", quality=95, subsampling=sampling, **options)
    return out.getvalue()


def luma(data: bytes) -> Array:
    """Y as libjpeg decodes it, by way of Pillow."""
    image = Image.open(io.BytesIO(data))
    image.draft("YCbCr", image.size)
    assert image.mode == "YCbCr"
    return np.asarray(image)[:, :, 0]


def planes(data: bytes) -> list[Array]:
    """Y, U and V as FFmpeg decodes them."""
    codec: Any = av.CodecContext.create("mjpeg", "r")
    frame = codec.decode(av.Packet(data))[0]
    arrays = []
    for plane in frame.planes:
        arrays.append(np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width])
    return arrays


def host(data: bytes) -> tuple[int, int]:
    return acl.util.bytes_to_ptr(data), len(data)


class Output:
    """Memory for a decoded picture and a description of which only that is set."""

    def __init__(self, size: int, form: int) -> None:
        self.size = size
        self.ptr = ok(media.dvpp_malloc(size))
        self.desc = media.dvpp_create_pic_desc()
        ok(media.dvpp_set_pic_desc_data(self.desc, self.ptr))
        ok(media.dvpp_set_pic_desc_size(self.desc, size))
        ok(media.dvpp_set_pic_desc_format(self.desc, form))

    def get(self, field: str) -> int:
        value: int = getattr(media, f"dvpp_get_pic_desc_{field}")(self.desc)
        return value

    def rows(self) -> Array:
        return download(self.ptr, self.size).reshape(-1, self.get("width_stride"))


def decode(data: bytes, form: int, stream: int = 0, ch: int = 0) -> Output:
    size = ok(media.dvpp_jpeg_predict_dec_size(*host(data), form))
    output = Output(size, form)
    ok(media.dvpp_jpeg_decode_async(ch or channel(), *upload(data), output.desc, stream))
    return output


# ---- headers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_header_tells_size_and_sampling(sampling: str) -> None:
    data = jpeg(130, 70, sampling)
    assert media.dvpp_jpeg_get_image_info(*host(data)) == (130, 70, 3, 0)
    assert media.dvpp_jpeg_get_image_info_v2(*host(data)) == (130, 70, 3, SAMPLINGS[sampling], 0)
    assert media.dvpp_jpeg_get_image_info_v2(*upload(data))[:2] == (130, 70)


def test_image_info_of_a_grey_picture() -> None:
    out = io.BytesIO()
    picture(64, 64).convert("L").save(out, "JPEG")
    assert media.dvpp_jpeg_get_image_info_v2(*host(out.getvalue())) == (64, 64, 1, 3, 0)


def test_a_size_beyond_the_end_of_the_object() -> None:
    data = jpeg(64, 64)
    assert media.dvpp_jpeg_get_image_info(acl.util.bytes_to_ptr(data), len(data) + 100)[:2] == (64, 64)


BROKEN = [b"", b"\xff\xd8", b"not a picture at all", jpeg(64, 64)[:100], b"\xff\xd8\xff" + bytes(500), bytes(1 << 16)]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_jpeg(data: bytes) -> None:
    kept = data or bytes(1)
    ptr = acl.util.bytes_to_ptr(kept)
    assert media.dvpp_jpeg_get_image_info(ptr, len(data)) == (0, 0, 0, 100000)
    assert media.dvpp_jpeg_get_image_info_v2(ptr, len(data)) == (0, 0, 0, 0, 100000)
    assert media.dvpp_jpeg_predict_dec_size(ptr, len(data), 1) == (0, 100000)


def test_headers_at_addresses_that_are_none() -> None:
    assert media.dvpp_jpeg_get_image_info(0, 100) == (0, 0, 0, 100000)
    assert media.dvpp_jpeg_get_image_info(0xDEADBEEF, 100) == (0, 0, 0, 107000)
    freed = ok(media.dvpp_malloc(100))
    ok(media.dvpp_free(freed))
    assert media.dvpp_jpeg_get_image_info(freed, 100) == (0, 0, 0, 107000)


@pytest.mark.parametrize(("form", "halves"), [(NV12, 3), (4, 4), (6, 6), (RGB, 6)])
def test_the_predicted_size_is_that_of_the_padded_picture(form: int, halves: int) -> None:
    data = jpeg(130, 70, "4:4:4")
    assert ok(media.dvpp_jpeg_predict_dec_size(*host(data), form)) == up(130, 64) * up(70, 16) * halves // 2
    assert media.dvpp_jpeg_predict_dec_size(*host(data), 999) == (0, 100000)


def test_the_native_size_follows_the_file() -> None:
    for sampling, halves in (("4:4:4", 6), ("4:2:2", 4), ("4:2:0", 3)):
        data = jpeg(128, 64, sampling)
        assert ok(media.dvpp_jpeg_predict_dec_size(*host(data), UNKNOWN)) == 128 * 64 * halves // 2


# ---- decoding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [NV12, NV21])
def test_a_picture_is_decoded_with_its_description_filled_in(form: int) -> None:
    data = jpeg(130, 70)
    output = decode(data, form)
    ok(acl.rt.synchronize_stream(0))
    names = ("ret_code", "width", "height", "width_stride", "height_stride", "format", "size")
    assert [output.get(name) for name in names] == [0, 130, 70, 192, 80, form, 192 * 80 * 3 // 2]
    rows = output.rows()
    assert np.abs(rows[:70, :130].astype(int) - luma(data)).max() <= 1
    pair = rows[80 : 80 + 35, :130].reshape(35, 65, 2).astype(int)
    for index, wanted in enumerate(planes(data)[1:] if form == NV12 else planes(data)[:0:-1]):
        assert np.abs(pair[:, :, index] - wanted).max() <= 2


def test_decode_as_the_file_is_gives_v_before_u() -> None:
    data = jpeg(128, 64, "4:4:4")
    output = decode(data, UNKNOWN)
    ok(acl.rt.synchronize_stream(0))
    assert output.get("format") == 6
    chroma = output.rows()[64:].reshape(64, 128, 2).astype(int)
    _, u, v = planes(data)
    assert np.abs(chroma[:, :, 0] - v).max() <= 2 and np.abs(chroma[:, :, 1] - u).max() <= 2


def test_the_strides_of_the_program_are_kept() -> None:
    """5.3.3 of the guide and users of the 310B align to 16 and 2."""
    data = jpeg(130, 70)
    target = Pic(NV12, 130, 70)
    ok(media.dvpp_jpeg_decode_async(channel(), *upload(data), target.desc, 0))
    ok(acl.rt.synchronize_stream(0))
    assert media.dvpp_get_pic_desc_width_stride(target.desc) == 144
    assert np.abs(target.first().astype(int) - luma(data)).max() <= 1


def test_odd_sizes_are_told_even() -> None:
    data = jpeg(131, 71, "4:4:4")
    output = decode(data, NV12)
    ok(acl.rt.synchronize_stream(0))
    assert (output.get("width"), output.get("height")) == (130, 70)
    assert np.abs(output.rows()[:70, :130].astype(int) - luma(data)[:70, :130]).max() <= 1


def test_a_grey_picture_gets_neutral_chroma() -> None:
    out = io.BytesIO()
    picture(64, 64).convert("L").save(out, "JPEG", quality=95)
    output = decode(out.getvalue(), NV12)
    ok(acl.rt.synchronize_stream(0))
    wanted = np.asarray(Image.open(io.BytesIO(out.getvalue())))
    assert np.abs(output.rows()[:64].astype(int) - wanted).max() <= 1
    assert (output.rows()[64:] == 128).all()


def test_the_orientation_turns_the_picture() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = jpeg(128, 64, exif=exif)
    assert media.dvpp_jpeg_get_image_info(*host(data))[:2] == (128, 64)
    output = decode(data, NV12)
    ok(acl.rt.synchronize_stream(0))
    assert (output.get("width"), output.get("height"), output.get("width_stride")) == (64, 128, 64)
    assert np.abs(output.rows()[:128].astype(int) - np.rot90(luma(data), -1)).max() <= 1


def test_a_file_that_a_copy_on_the_stream_brings() -> None:
    stream, data = ok(acl.rt.create_stream()), jpeg(128, 64)
    ptr, size = upload(bytes(len(data)))
    output = Output(128 * 64 * 3 // 2, NV12)
    with Hold(stream):
        ok(acl.rt.memcpy_async(ptr, size, *host(data), 1, stream))
        ok(media.dvpp_jpeg_decode_async(channel(), ptr, size, output.desc, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert np.abs(output.rows()[:64].astype(int) - luma(data)).max() <= 1


REFUSED = {
    "progressive": jpeg(64, 64, progressive=True),
    "damaged": b"\xff\xd8\xff" + bytes(500),
    "cut off": jpeg(256, 256)[:2000],
    "no picture": b"hello world, this is no picture",
}


@pytest.mark.parametrize("what", REFUSED)
def test_files_that_are_refused(what: str) -> None:
    data, output = REFUSED[what], Output(1 << 18, NV12)
    ok(media.dvpp_jpeg_decode_async(channel(), *upload(data), output.desc, 0))
    assert acl.rt.synchronize_stream(0) == 507018
    assert "JPEG" in message()
    assert output.get("ret_code") == 1
    ok(acl.rt.synchronize_stream(0))


def test_an_output_that_is_too_small() -> None:
    output = Output(1000, NV12)
    ok(media.dvpp_jpeg_decode_async(channel(), *upload(jpeg(128, 64)), output.desc, 0))
    assert acl.rt.synchronize_stream(0) == 507018
    assert "bytes" in message() and output.get("ret_code") == 1


def test_decoding_is_checked_at_once() -> None:
    ch, output, (ptr, size) = channel(), Output(1 << 16, NV12), upload(jpeg(64, 64))
    call = media.dvpp_jpeg_decode_async
    assert call(ch, 0, size, output.desc, 0) == 100000
    assert call(ch, ptr, 0, output.desc, 0) == 100000
    assert call(ch, ptr, 1 << 30, output.desc, 0) == 107000
    assert call(ch, ptr, size, 0, 0) == 100000
    assert call(channel(1), ptr, size, output.desc, 0) == 100000
    assert "without JPEGD" in message()
    assert in_thread(lambda: call(ch, ptr, size, output.desc, 0)) == 107002
    ok(media.dvpp_set_pic_desc_format(output.desc, 999))
    assert call(ch, ptr, size, output.desc, 0) == 100000
    ok(media.dvpp_set_pic_desc_format(output.desc, NV12))
    ok(media.dvpp_set_pic_desc_data(output.desc, 0))
    assert call(ch, ptr, size, output.desc, 0) == 100000


def test_memory_that_is_freed_before_the_task_runs() -> None:
    stream, (ptr, size), output = ok(acl.rt.create_stream()), upload(jpeg(64, 64)), Output(1 << 16, NV12)
    with Hold(stream):
        ok(media.dvpp_jpeg_decode_async(channel(), ptr, size, output.desc, stream))
        ok(media.dvpp_free(ptr))
        ok(media.dvpp_destroy_pic_desc(output.desc))
    assert acl.rt.synchronize_stream(stream) == 507018


def test_streams_decode_beside_each_other() -> None:
    ch, data = channel(), jpeg(256, 128)
    streams = [ok(acl.rt.create_stream()) for _ in range(4)]
    outputs = [decode(data, NV12, stream, ch) for stream in streams for _ in range(3)]
    for stream in streams:
        ok(acl.rt.synchronize_stream(stream))
    first = outputs[0].rows()
    assert all((output.rows() == first).all() and output.get("ret_code") == 0 for output in outputs)


# ---- encoding --------------------------------------------------------------------------------------------------------


def encode(source: Pic, level: int | None, room: int | None = None) -> tuple[int, bytes]:
    """The code of the synchronise and the file."""
    cfg = 0
    if level is not None:
        cfg = media.dvpp_create_jpege_config()
        ok(media.dvpp_set_jpege_config_level(cfg, level))
    size = ok(media.dvpp_jpeg_predict_enc_size(source.desc, cfg)) if room is None else room
    ptr = ok(media.dvpp_malloc(size))
    cell = struct.pack("<I", size)
    ok(media.dvpp_jpeg_encode_async(channel(), source.desc, ptr, acl.util.bytes_to_ptr(cell), cfg, 0))
    code: int = acl.rt.synchronize_stream(0)
    written = int.from_bytes(acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(cell), 4), "little")
    return code, acl.util.ptr_to_bytes(ptr, written)


@pytest.mark.parametrize("form", [NV12, NV21, YUYV])
def test_an_encoded_picture_is_read_by_others(form: int) -> None:
    source = nv12(96, 64, form=form) if form != YUYV else Pic(YUYV, 96, 64)
    if form == YUYV:
        y, x = np.mgrid[0:64, 0:96]
        source.write(np.stack([x + y, np.full_like(x, 100)], axis=2).astype(np.uint8))
    code, data = encode(source, 100)
    assert code == 0
    assert data[:3] == b"\xff\xd8\xff" and data[-2:] == b"\xff\xd9"
    assert Image.open(io.BytesIO(data)).size == (96, 64)
    wanted = source.first()[:, :, 0] if form == YUYV else source.first()
    assert np.abs(luma(data).astype(int) - wanted).mean() < 2


def test_a_higher_level_makes_a_larger_file() -> None:
    source = nv12(256, 128)
    sizes = {level: len(encode(source, level)[1]) for level in (1, 50, 100, 0, None)}
    assert sizes[1] < sizes[50] < sizes[100] == sizes[0] == sizes[None]


def test_the_prediction_is_never_too_small() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (64, 96)).astype(np.uint8)
    source = nv12(96, 64).write(noise, noise[:32])
    predicted = ok(media.dvpp_jpeg_predict_enc_size(source.desc, 0))
    code, data = encode(source, 100)
    assert code == 0 and len(data) <= predicted


def test_too_little_room_for_the_file() -> None:
    code, _ = encode(nv12(96, 64), 100, room=200)
    assert code == 507018
    assert "room for 200" in message()


def test_encoding_is_checked_at_once() -> None:
    ch, source, ptr = channel(), nv12(96, 64), ok(media.dvpp_malloc(1 << 16))
    cell = struct.pack("<I", 1 << 16)
    call = media.dvpp_jpeg_encode_async
    where = acl.util.bytes_to_ptr(cell)
    assert call(ch, source.desc, 0, where, 0, 0) == 100000
    assert call(ch, source.desc, ptr, 0, 0, 0) == 100000
    assert call(ch, source.desc, ptr, 0xDEADBEEF, 0, 0) == 107000
    assert call(ch, 0, ptr, where, 0, 0) == 100000
    assert call(ch, source.desc, ptr, where, source.desc, 0) == 107000
    assert call(channel(1 | 2 | 8), source.desc, ptr, where, 0, 0) == 100000
    large = struct.pack("<I", 1 << 30)
    assert call(ch, source.desc, ptr, acl.util.bytes_to_ptr(large), 0, 0) == 107000
    rgb = Pic(RGB, 64, 64)
    assert call(ch, rgb.desc, ptr, where, 0, 0) == 100000
    assert media.dvpp_jpeg_predict_enc_size(rgb.desc, 0) == (0, 100000)
    assert media.dvpp_jpeg_predict_enc_size(media.dvpp_create_pic_desc(), 0) == (0, 100000)
    assert media.dvpp_jpeg_predict_enc_size(0, 0) == (0, 100000)


def test_there_and_back_through_the_device() -> None:
    ch, source = channel(), nv12(128, 64)
    _, data = encode(source, 100)
    output = decode(data, NV12, ch=ch)
    ok(acl.rt.synchronize_stream(0))
    assert np.abs(output.rows()[:64].astype(int) - source.first()).mean() < 2
