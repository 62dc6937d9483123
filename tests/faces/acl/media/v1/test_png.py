"""acl.media: PNG decoding. Numbers come from Pillow."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import acl
from tests.faces.acl.media.v1.support import RGB, RGBA, UNKNOWN, Array, channel, download, up, upload
from tests.support import message, ok

pytestmark = pytest.mark.usefixtures("runtime")
media = acl.media


def image(mode: str, width: int = 130, height: int = 70) -> Image.Image:
    values = np.random.default_rng(3).integers(0, 256, (height, width, 4)).astype(np.uint8)
    return Image.fromarray(values).convert(mode)


def png(mode: str, width: int = 130, height: int = 70) -> bytes:
    out = io.BytesIO()
    image(mode, width, height).save(out, "PNG")
    return out.getvalue()


def decode(data: bytes, form: int) -> tuple[int, Array]:
    """The description and the pixels; memory of the predicted size."""
    size = ok(media.dvpp_png_predict_dec_size(acl.util.bytes_to_ptr(data), len(data), form))
    ptr, desc = ok(media.dvpp_malloc(size)), media.dvpp_create_pic_desc()
    ok(media.dvpp_set_pic_desc_data(desc, ptr))
    ok(media.dvpp_set_pic_desc_size(desc, size))
    ok(media.dvpp_set_pic_desc_format(desc, form))
    ok(media.dvpp_png_decode_async(channel(), *upload(data), desc, 0))
    ok(acl.rt.synchronize_stream(0))
    assert media.dvpp_get_pic_desc_ret_code(desc) == 0
    stride, channels = (
        media.dvpp_get_pic_desc_width_stride(desc),
        4 if media.dvpp_get_pic_desc_format(desc) == 16 else 3,
    )
    width, height = media.dvpp_get_pic_desc_width(desc), media.dvpp_get_pic_desc_height(desc)
    rows = download(ptr, size).reshape(-1, stride)[:height, : width * channels]
    return desc, rows.reshape(height, width, channels)


@pytest.mark.parametrize(("mode", "components"), [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)])
def test_a_header_tells_size_and_components(mode: str, components: int) -> None:
    data = png(mode)
    assert media.dvpp_png_get_image_info(acl.util.bytes_to_ptr(data), len(data)) == (130, 70, components, 0)
    assert media.dvpp_png_get_image_info(*upload(data)) == (130, 70, components, 0)


@pytest.mark.parametrize(("form", "channels"), [(RGB, 3), (RGBA, 4)])
def test_the_predicted_size_is_that_of_the_padded_picture(form: int, channels: int) -> None:
    data = png("RGBA")
    size = ok(media.dvpp_png_predict_dec_size(acl.util.bytes_to_ptr(data), len(data), form))
    assert size == up(130, 128) * channels * up(70, 16)
    assert media.dvpp_png_predict_dec_size(acl.util.bytes_to_ptr(data), len(data), 1) == (0, 100000)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_a_picture_is_decoded_to_rgb(mode: str) -> None:
    desc, pixels = decode(png(mode), RGB)
    assert media.dvpp_get_pic_desc_width_stride(desc) == 256 * 3
    assert media.dvpp_get_pic_desc_height_stride(desc) == 80
    plain = image(mode).convert("L") if mode == "LA" else image(mode)
    wanted = np.asarray(plain.convert("RGB")) if mode != "RGBA" else np.asarray(plain)[:, :, :3]
    np.testing.assert_array_equal(pixels, wanted)


@pytest.mark.parametrize("form", [RGBA, UNKNOWN])
def test_a_picture_is_decoded_with_alpha(form: int) -> None:
    desc, pixels = decode(png("RGBA"), form)
    assert media.dvpp_get_pic_desc_format(desc) == RGBA
    np.testing.assert_array_equal(pixels, np.asarray(image("RGBA")))


def test_the_format_of_the_file() -> None:
    desc, pixels = decode(png("RGB"), UNKNOWN)
    assert media.dvpp_get_pic_desc_format(desc) == RGB
    np.testing.assert_array_equal(pixels, np.asarray(image("RGB")))


@pytest.mark.parametrize("data", [b"no png at all, but long enough", png("RGB")[:300], png("RGB")[:20]], ids=range(3))
def test_damaged_files_are_refused(data: bytes) -> None:
    ptr, desc = ok(media.dvpp_malloc(1 << 20)), media.dvpp_create_pic_desc()
    ok(media.dvpp_set_pic_desc_data(desc, ptr))
    ok(media.dvpp_set_pic_desc_size(desc, 1 << 20))
    ok(media.dvpp_set_pic_desc_format(desc, RGB))
    ok(media.dvpp_png_decode_async(channel(), *upload(data), desc, 0))
    assert acl.rt.synchronize_stream(0) == 507018
    assert "PNG" in message()
    assert media.dvpp_get_pic_desc_ret_code(desc) == 1


def test_headers_that_are_none() -> None:
    for data in (b"x" * 50, png("RGB")[:10]):
        assert media.dvpp_png_get_image_info(acl.util.bytes_to_ptr(data), len(data)) == (0, 0, 0, 100000)
    assert media.dvpp_png_get_image_info(0, 10) == (0, 0, 0, 100000)
    assert media.dvpp_png_get_image_info(0xDEADBEEF, 10) == (0, 0, 0, 107000)


def test_decoding_is_checked_at_once() -> None:
    ptr, size = upload(png("RGB"))
    desc = media.dvpp_create_pic_desc()
    ok(media.dvpp_set_pic_desc_data(desc, ok(media.dvpp_malloc(1 << 20))))
    ok(media.dvpp_set_pic_desc_size(desc, 1 << 20))
    ok(media.dvpp_set_pic_desc_format(desc, 1))
    assert media.dvpp_png_decode_async(channel(), ptr, size, desc, 0) == 100000
    ok(media.dvpp_set_pic_desc_format(desc, RGB))
    assert media.dvpp_png_decode_async(channel(), 0, size, desc, 0) == 100000
    assert media.dvpp_png_decode_async(channel(7), ptr, size, desc, 0) == 100000
    assert "without PNGD" in message()
