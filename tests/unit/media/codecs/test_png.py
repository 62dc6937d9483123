"""PNG against Pillow: every colour type and depth, interlaced or not, and damage of every kind."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from softnpu.base.errors import NpuError, codes
from softnpu.media.codecs.png import PngInfo, decode, output_strides, outputs, parse, refused
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels
from tests.unit.media.image_samples import Guarded, by_pillow, chunk, picture, png

RGB, BGR, ARGB, ABGR, RGBA, BGRA = 12, 13, 14, 15, 16, 17
SIZES = [(1, 1), (2, 3), (9, 7), (32, 32), (61, 40)]
PALETTE = np.random.default_rng(5).integers(0, 256, (256, 3), np.uint8)


def samples(width: int, height: int, channels: int, depth: int = 8) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(width + height + channels + depth)
    return rng.integers(0, 1 << depth, (height, width, channels))


def palette_chunk(depth: int) -> bytes:
    return chunk(b"PLTE", PALETTE[: 1 << depth].tobytes())


def decoded(file: bytes, form: int) -> np.ndarray[Any, Any]:
    info = parse(file)
    guarded = Guarded(form, info.width, info.height)
    decode(file, info, guarded.pixels)
    assert guarded.intact()
    return guarded.pixels.planes[0]


def failing(file: bytes, form: int = RGB) -> str:
    with pytest.raises(NpuError) as caught:
        info = parse(file)
        decode(file, info, Pixels.empty(pixel_format(form), info.width, info.height))
    assert caught.value.code == codes.INVALID_PARAM and caught.value.remedy
    return caught.value.text


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("colour", "depth", "channels"),
    [
        (0, 1, 1),
        (0, 2, 1),
        (0, 4, 1),
        (0, 8, 1),
        (2, 8, 3),
        (3, 1, 1),
        (3, 2, 1),
        (3, 4, 1),
        (3, 8, 1),
        (4, 8, 2),
        (6, 8, 4),
    ],
)
def test_every_kind_against_pillow(
    colour: int, depth: int, channels: int, size: tuple[int, int], interlaced: bool
) -> None:
    extra = palette_chunk(depth) if colour == 3 else b""
    file = png(samples(*size, channels, depth), colour, depth, extra, interlaced)
    info = parse(file)
    assert info == PngInfo(*size, colour, depth, interlaced)
    assert info.components == channels
    if colour in (4, 6):
        expected = by_pillow(file, "RGBA")
        assert np.array_equal(decoded(file, RGBA), expected)
        assert np.array_equal(decoded(file, RGB), expected[:, :, :3])
    else:
        expected = by_pillow(file, "RGB")
        assert np.array_equal(decoded(file, RGB), expected)
        assert np.array_equal(decoded(file, RGBA)[:, :, :3], expected)
        assert (decoded(file, RGBA)[:, :, 3] == 255).all()


def test_other_orders_of_the_channels() -> None:
    array = samples(20, 12, 4).astype(np.uint8)
    file = png(array, 6)
    r, g, b, a = (array[:, :, index] for index in range(4))
    for form, order in ((BGR, (b, g, r)), (ARGB, (a, r, g, b)), (ABGR, (a, b, g, r)), (BGRA, (b, g, r, a))):
        assert np.array_equal(decoded(file, form), np.stack(order, -1))


def test_a_file_by_pillow_with_filters_and_other_chunks() -> None:
    image = Image.fromarray(picture(200, 150))
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(stream, "PNG", dpi=(72, 72), exif=exif, compress_level=9)
    assert np.array_equal(decoded(stream.getvalue(), RGB), picture(200, 150))


def test_wrong_colour_profiles_do_not_matter(capfd: pytest.CaptureFixture[str]) -> None:
    array = samples(20, 12, 3)
    file = png(
        array, 2, extra=chunk(b"iCCP", b"x\0\0garbage") + chunk(b"gAMA", struct.pack(">I", 1)) + chunk(b"tEXt", b"a\0b")
    )
    assert np.array_equal(decoded(file, RGB), array)
    assert capfd.readouterr().err == ""


def test_a_palette_with_alpha() -> None:
    alpha = np.random.default_rng(2).integers(0, 256, 16, np.uint8)
    file = png(samples(20, 12, 1, 4), 3, 4, palette_chunk(4) + chunk(b"tRNS", alpha.tobytes()))
    assert np.array_equal(decoded(file, RGBA), by_pillow(file, "RGBA"))
    assert np.array_equal(decoded(file, RGB), by_pillow(file, "RGBA")[:, :, :3])


def test_bytes_after_the_end_do_not_matter() -> None:
    array = samples(20, 12, 3)
    for tail in (b"\0" * 100, b"IDAT", b"\xff" * 13):
        assert np.array_equal(decoded(png(array, 2) + tail, RGB), array)


def test_other_bytes_like_objects() -> None:
    array = samples(20, 12, 3)
    file = np.frombuffer(png(array, 2), np.uint8)
    out = Pixels.empty(pixel_format(RGB), 20, 12)
    decode(file, parse(file), out)
    assert np.array_equal(out.planes[0], array)


def test_outputs_and_strides() -> None:
    assert outputs(PngInfo(1, 1, 6, 8, False)) == (RGBA, RGB)
    assert outputs(PngInfo(1, 1, 4, 8, False)) == (RGBA, RGB)
    assert (
        outputs(PngInfo(1, 1, 0, 8, False))
        == outputs(PngInfo(1, 1, 2, 8, False))
        == outputs(PngInfo(1, 1, 3, 8, False))
        == (RGB,)
    )
    assert output_strides((100, 33), RGB) == (384, 48)
    assert output_strides((129, 16), pixel_format(RGBA)) == (1024, 16)


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_16_bits_are_refused(colour: int, channels: int) -> None:
    assert "16 bits" in failing(png(samples(20, 12, channels, 16), colour, 16))


def test_sizes_are_checked_before_anything_is_allocated() -> None:
    file = bytearray(png(samples(20, 12, 3), 2))
    for width, height, reason in (
        (0, 12, "0x12"),
        (20, 0, "20x0"),
        (20000, 20000, "larger than"),
        (0x7FFFFFFF, 0x7FFFFFFF, "larger than"),
    ):
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        changed = bytes(file[:8]) + chunk(b"IHDR", header) + bytes(file[33:])
        with pytest.raises(NpuError, match=reason):
            info = parse(changed)
            assert refused(info)
            decode(changed, info, Pixels.empty(pixel_format(RGB), 20, 12))
    with pytest.raises(NpuError, match="described as 21x12"):
        decode(bytes(file), parse(bytes(file)), Pixels.empty(pixel_format(RGB), 21, 12))


@pytest.mark.parametrize(
    "header",
    [
        (8, 1, 0, 0, 0),
        (3, 0, 0, 0, 0),
        (4, 2, 0, 0, 0),
        (16, 3, 0, 0, 0),
        (8, 2, 1, 0, 0),
        (8, 2, 0, 1, 0),
        (8, 2, 0, 0, 2),
        (0, 2, 0, 0, 0),
        (8, 7, 0, 0, 0),
    ],
)
def test_headers_that_say_nonsense(header: tuple[int, ...]) -> None:
    assert "its header says" in failing(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, *header)))


def test_every_truncation_fails() -> None:
    file = png(samples(9, 7, 3), 2)
    for size in range(len(file)):
        failing(file[:size])
    assert np.array_equal(decoded(file, RGB), samples(9, 7, 3))


def test_every_flipped_byte_fails_or_is_harmless() -> None:
    file = png(samples(9, 7, 3), 2)
    for at in range(len(file)):
        changed = file[:at] + bytes([file[at] ^ 0x55]) + file[at + 1 :]
        failing(changed)  # each byte is in the signature, in a length or under a checksum
    assert np.array_equal(decoded(file, RGB), samples(9, 7, 3))


def test_data_that_is_wrong_under_right_checksums() -> None:
    array = samples(9, 7, 3)
    whole = png(array, 2)
    start, end = whole[:33], chunk(b"IEND", b"")
    assert "no picture data" in failing(start + end)
    assert "cannot be decoded" in failing(start + chunk(b"IDAT", b"not zlib") + end)
    data = b"".join(part for part in (whole[33:-12],))
    first = int.from_bytes(data[:4], "big")
    assert "cannot be decoded" in failing(start + data[: first + 12] + end)
    assert "must know" in failing(start + chunk(b"ABCD", b"") + data + end)
    assert np.array_equal(decoded(start + chunk(b"abCD", b"xyz") + data + end, RGB), array)
    assert "cannot be decoded" in failing(png(samples(9, 7, 1), 3))  # no palette
    assert "not with its header" in failing(whole[:8] + data + end)
    for other in (b"", b"\x89PNG", b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n"):
        failing(other)
