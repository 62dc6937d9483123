"""acl.himpi: PNG decoding. The files are Pillow's, and so are the pixels they are compared with."""

from __future__ import annotations

import io
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import acl
from tests.faces.acl.media.v2.support import (
    BUF_EMPTY,
    BUF_FULL,
    EXIST,
    FOREVER,
    ILLEGAL_PARAM,
    INVALID_CHN_ID,
    NOT_READY,
    NULL_PTR,
    PNGD,
    RGB,
    RGBA,
    TIMEOUT,
    UNEXIST,
    Array,
    fetch,
    noise,
    put,
)
from tests.support import in_thread, message, ok

PNG = 268
UNKNOWN = 10000
NO_PIC = dict.fromkeys(
    (
        "picture_address", "picture_buffer_size", "picture_width", "picture_height", "picture_width_stride",
        "picture_height_stride", "picture_format",
    ), 0,
)  # fmt: skip
NO_STREAM = {"type": 0, "addr": 0, "len": 0, "pts": 0, "reserved": [0, 0]}


@pytest.fixture
def channel(himpi: None) -> Iterator[int]:
    """An open channel."""
    assert acl.himpi.pngd_create_chn(2, {"stream_que_cnt": 4}) == 0
    yield 2
    acl.himpi.pngd_destroy_chn(2)


def file(data: Array) -> bytes:
    """A PNG of these pixels."""
    target = io.BytesIO()
    Image.fromarray(data).save(target, "PNG")
    return target.getvalue()


def stream(content: bytes, pts: int = 0) -> dict[str, Any]:
    return {"type": PNG, "addr": put(np.frombuffer(content, np.uint8)), "len": len(content), "pts": pts}


def output(info: dict[str, Any], form: int = UNKNOWN) -> dict[str, Any]:
    return {
        "picture_address": ok(acl.himpi.dvpp_malloc(0, info["img_buf_size"])),
        "picture_buffer_size": info["img_buf_size"],
        "picture_width": info["width"],
        "picture_height": info["height"],
        "picture_width_stride": info["width_stride"],
        "picture_height_stride": info["height_stride"],
        "picture_format": form,
    }


def pixels(pic: dict[str, Any]) -> Array:
    channels = 4 if pic["picture_format"] == RGBA else 3
    whole = fetch(pic["picture_address"], pic["picture_buffer_size"])
    rows = whole.reshape(pic["picture_height_stride"], -1, channels)
    return rows[: pic["picture_height"], : pic["picture_width"]]


@pytest.mark.parametrize(
    ("mode", "colour", "form"), [("RGB", 2, RGB), ("RGBA", 6, RGBA), ("L", 0, RGB), ("LA", 4, RGBA), ("P", 3, RGB)]
)
def test_a_picture_is_decoded_as_pillow_does(channel: int, mode: str, colour: int, form: int) -> None:
    picture = Image.fromarray(noise(50, 70, 3)).convert(mode)
    target = io.BytesIO()
    picture.save(target, "PNG")
    packet = stream(target.getvalue(), pts=77)
    info = ok(acl.himpi.png_get_image_info(packet))
    channels = 4 if form == RGBA else 3
    want = {"width": 70, "height": 50, "width_stride": 128 * channels, "height_stride": 64}
    assert info == want | {"img_buf_size": 128 * channels * 64, "pixel_format": colour, "reserved": [0] * 4}
    out = output(info)
    assert acl.himpi.pngd_send_stream(channel, packet, out, 0) == 0
    decoded, back, ret = acl.himpi.pngd_get_image_data(channel, FOREVER)
    assert ret == 0
    assert decoded == {**out, "picture_format": form}
    assert back == {**packet, "reserved": [0, 0]}
    assert (pixels(decoded) == np.asarray(picture.convert("RGBA" if form == RGBA else "RGB"))).all()


def test_the_format_that_was_asked_for_is_decoded(channel: int) -> None:
    data = noise(50, 70, 4)
    packet = stream(file(data))
    out = output(ok(acl.himpi.png_get_image_info(packet)), RGB)
    ok(acl.himpi.pngd_send_stream(channel, packet, out, 0))
    decoded, _, ret = acl.himpi.pngd_get_image_data(channel, FOREVER)
    assert ret == 0 and decoded["picture_format"] == RGB
    rows = fetch(decoded["picture_address"], 512 * 64).reshape(64, 512)[:50, :210]
    assert (rows.reshape(50, 70, 3) == data[:, :, :3]).all()


def test_sizes_left_open_are_filled_in(channel: int) -> None:
    data = noise(50, 70, 3)
    packet = stream(file(data))
    whole = output(ok(acl.himpi.png_get_image_info(packet)))
    short = {key: whole[key] for key in ("picture_address", "picture_buffer_size", "picture_format")}
    ok(acl.himpi.pngd_send_stream(channel, packet, short, 0))
    decoded, _, ret = acl.himpi.pngd_get_image_data(channel, FOREVER)
    assert ret == 0
    assert decoded == {**whole, "picture_format": RGB}
    assert (pixels(decoded) == data).all()


def test_header_in_host_memory() -> None:
    content = file(noise(50, 70, 3))
    info, ret = acl.himpi.png_get_image_info({"type": PNG, "addr": acl.util.bytes_to_ptr(content), "len": len(content)})
    assert ret == 0 and (info["width"], info["height"]) == (70, 50)


def test_results_come_in_order(channel: int) -> None:
    datas = [noise(40 + n, 50, 3, seed=n) for n in range(4)]
    for number, data in enumerate(datas):
        packet = stream(file(data), pts=number)
        ok(acl.himpi.pngd_send_stream(channel, packet, output(ok(acl.himpi.png_get_image_info(packet))), 0))
    for number, data in enumerate(datas):
        decoded, back, ret = acl.himpi.pngd_get_image_data(channel, FOREVER)
        assert (ret, back["pts"]) == (0, number)
        assert (pixels(decoded) == data).all()
    assert acl.himpi.pngd_get_image_data(channel, 0) == (NO_PIC, NO_STREAM, PNGD | BUF_EMPTY)


def test_a_full_queue_refuses_the_next_file(channel: int) -> None:
    packet = stream(file(noise(40, 50, 3)))
    out = output(ok(acl.himpi.png_get_image_info(packet)))
    assert [acl.himpi.pngd_send_stream(channel, packet, out, 0) for _ in range(4)] == [0] * 4
    assert acl.himpi.pngd_send_stream(channel, packet, out, 0) == PNGD | BUF_FULL
    before = time.monotonic()
    assert acl.himpi.pngd_send_stream(channel, packet, out, 50) == PNGD | TIMEOUT
    assert time.monotonic() - before > 0.04
    threading.Timer(0.1, lambda: (acl.himpi.pngd_get_image_data(channel, 0), None)[1]).start()
    assert in_thread(lambda: acl.himpi.pngd_send_stream(channel, packet, out, FOREVER)) == 0


def test_waiting_for_another_thread(channel: int) -> None:
    packet = stream(file(noise(40, 50, 3)))
    out = output(ok(acl.himpi.png_get_image_info(packet)))
    threading.Timer(0.1, lambda: (acl.himpi.pngd_send_stream(channel, packet, out, 0), None)[1]).start()
    assert in_thread(lambda: acl.himpi.pngd_get_image_data(channel, FOREVER))[2] == 0
    assert acl.himpi.pngd_get_image_data(channel, 20)[2] == PNGD | BUF_EMPTY
    threading.Timer(0.1, lambda: (acl.himpi.pngd_destroy_chn(channel), None)[1]).start()
    assert in_thread(lambda: acl.himpi.pngd_get_image_data(channel, FOREVER)) == (NO_PIC, NO_STREAM, PNGD | UNEXIST)


def damaged() -> dict[str, bytes]:
    good = file(noise(40, 50, 3))
    wrong_sum = bytearray(good)
    wrong_sum[100] ^= 255
    deep = io.BytesIO()
    Image.fromarray(noise(40, 50).astype(np.uint16) * 256).save(deep, "PNG")
    empty = good[:33] + b"\0\0\0\0IEND" + zlib.crc32(b"IEND").to_bytes(4, "big")
    return {
        "cut": good[: len(good) // 2],
        "checksum": bytes(wrong_sum),
        "no PNG": b"\xff\xd8\xff\xe0" + good[4:],
        "header only": good[:33],
        "no pixels": empty,
        "16 bits": deep.getvalue(),
    }


@pytest.mark.parametrize("name", damaged())
def test_damaged_files_give_back_their_memory_and_the_channel_goes_on(channel: int, name: str) -> None:
    """A failed picture comes back with its memory, and the channel goes on."""
    content = damaged()[name]
    packet = {**stream(content, pts=5), "reserved": [0, 0]}
    good = stream(file(noise(40, 50, 3)))
    out = output(ok(acl.himpi.png_get_image_info(good)))
    ok(acl.himpi.pngd_send_stream(channel, packet, out, 0))
    ok(acl.himpi.pngd_send_stream(channel, good, out, 0))
    decoded, back, ret = acl.himpi.pngd_get_image_data(channel, FOREVER)
    assert ret == PNGD | ILLEGAL_PARAM
    assert (decoded["picture_address"], back) == (out["picture_address"], packet)
    assert "PNG" in message()
    assert acl.himpi.pngd_get_image_data(channel, FOREVER)[2] == 0


def test_an_output_that_is_too_small(channel: int) -> None:
    packet = stream(file(noise(40, 50, 3)))
    info = ok(acl.himpi.png_get_image_info(packet))
    for change in (
        {"picture_buffer_size": 1000},
        {"picture_width_stride": 100},
        {"picture_format": 9999},
        {"picture_height_stride": 8},
    ):
        ok(acl.himpi.pngd_send_stream(channel, packet, {**output(info), **change}, 0))
        assert acl.himpi.pngd_get_image_data(channel, FOREVER)[2] == PNGD | ILLEGAL_PARAM


def test_wrong_arguments_of_send_are_refused(channel: int) -> None:
    packet = stream(file(noise(40, 50, 3)))
    out = output(ok(acl.himpi.png_get_image_info(packet)))
    send = acl.himpi.pngd_send_stream
    assert send(channel, {**packet, "addr": 0}, out, 0) == PNGD | NULL_PTR
    assert send(channel, {**packet, "len": 0}, out, 0) == PNGD | ILLEGAL_PARAM
    assert send(channel, {**packet, "len": 1 << 30}, out, 0) == PNGD | ILLEGAL_PARAM
    assert send(channel, {**packet, "type": 26}, out, 0) == PNGD | ILLEGAL_PARAM
    assert send(channel, {**packet, "addr": 4096}, out, 0) == PNGD | ILLEGAL_PARAM
    assert send(channel, packet, {**out, "picture_address": 0}, 0) == PNGD | NULL_PTR
    assert send(channel, packet, out, -2) == PNGD | ILLEGAL_PARAM
    assert acl.himpi.pngd_get_image_data(channel, -2)[2] == PNGD | ILLEGAL_PARAM
    assert acl.himpi.pngd_get_image_data(channel, 0)[2] == PNGD | BUF_EMPTY


def test_wrong_arguments_for_a_header_are_refused(himpi: None) -> None:
    zeros = dict.fromkeys(("width", "height", "width_stride", "height_stride", "img_buf_size", "pixel_format"), 0)
    zeros["reserved"] = [0] * 4  # type: ignore[assignment]
    content = file(noise(40, 50, 3))
    packet = stream(content)
    assert acl.himpi.png_get_image_info({**packet, "addr": 0}) == (zeros, PNGD | NULL_PTR)
    assert acl.himpi.png_get_image_info({**packet, "len": 0}) == (zeros, PNGD | ILLEGAL_PARAM)
    assert acl.himpi.png_get_image_info({**packet, "len": 20}) == (zeros, PNGD | ILLEGAL_PARAM)
    assert acl.himpi.png_get_image_info({**packet, "len": 1 << 31}) == (zeros, PNGD | ILLEGAL_PARAM)
    assert acl.himpi.png_get_image_info(stream(b"no picture at all")) == (zeros, PNGD | ILLEGAL_PARAM)


def test_channels_are_created_once_and_checked(himpi: None) -> None:
    assert acl.himpi.pngd_create_chn(0, {}) == 0
    assert acl.himpi.pngd_create_chn(0, {}) == PNGD | EXIST
    assert acl.himpi.pngd_create_chn(128, {}) == PNGD | INVALID_CHN_ID
    assert acl.himpi.pngd_create_chn(-1, {}) == PNGD | INVALID_CHN_ID
    assert acl.himpi.pngd_create_chn(1, {"stream_que_cnt": 1 << 20}) == PNGD | ILLEGAL_PARAM
    assert acl.himpi.pngd_destroy_chn(1) == PNGD | UNEXIST
    assert acl.himpi.pngd_destroy_chn(0) == 0
    assert acl.himpi.pngd_send_stream(0, {}, {}, 0) == PNGD | UNEXIST
    assert acl.himpi.pngd_get_image_data(0, 0) == (NO_PIC, NO_STREAM, PNGD | UNEXIST)


def test_nothing_before_sys_init(runtime: None) -> None:
    assert acl.himpi.pngd_create_chn(0, {}) == PNGD | NOT_READY


def test_channels_work_in_threads_of_their_own(himpi: None) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            ok(acl.rt.set_device(0))
            ok(acl.himpi.pngd_create_chn(number, {}))
            data = noise(60, 80, 3, seed=number)
            packet = stream(file(data))
            out = output(ok(acl.himpi.png_get_image_info(packet)))
            for _ in range(10):
                ok(acl.himpi.pngd_send_stream(number, packet, out, FOREVER))
                assert (pixels(acl.himpi.pngd_get_image_data(number, FOREVER)[0]) == data).all()
            ok(acl.himpi.pngd_destroy_chn(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures


def test_the_spelling_of_the_guide() -> None:
    assert acl.himpi.pngd_get_image_info is acl.himpi.png_get_image_info
