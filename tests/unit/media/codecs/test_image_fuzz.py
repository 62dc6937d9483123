"""Damaged images by the thousand: each gives a picture or an NpuError, writes nothing outside, and the next good file decodes."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media import turbojpeg
from softnpu.media.codecs.jpeg import decode as jpeg_decode
from softnpu.media.codecs.jpeg import header as jpeg_header
from softnpu.media.codecs.png import decode as png_decode
from softnpu.media.codecs.png import parse as png_parse
from tests.unit.media.image_samples import (
    Guarded,
    chunk,
    distance,
    jpeg,
    luma,
    picture,
    pillow_jpeg,
    png,
    three_scans,
    with_orientation,
)

NORMAL, LONG = 300, 5000
MOST_PIXELS = 1 << 18  # a header may ask for a larger picture; the header alone is tried then
JPEG_FORMS = [0, 1, 2, 5, 4, 12, 13, 55, 57]
PNG_FORMS = [12, 13, 16, 17]


def jpeg_seeds() -> list[bytes]:
    rgb = picture(40, 40)
    return [
        *(jpeg(48, 40, sampling) for sampling in ("444", "422", "420", "440", "400", "411")),
        jpeg(33, 31),
        with_orientation(jpeg(40, 24), 6),
        with_orientation(jpeg(41, 23, "422"), 5, ">"),
        pillow_jpeg(40, 40, restart_marker_blocks=2),
        pillow_jpeg(40, 40, progressive=True),
        three_scans([rgb[:, :, index] for index in range(3)]),
    ]


def png_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    palette = chunk(b"PLTE", rng.integers(0, 256, 48, np.uint8).tobytes())
    return [
        png(rng.integers(0, 256, (30, 40, 3)), 2),
        png(rng.integers(0, 256, (30, 40, 4)), 6, interlaced=True),
        png(rng.integers(0, 256, (30, 41, 2)), 4),
        png(rng.integers(0, 2, (30, 41, 1)), 0, 1),
        png(rng.integers(0, 16, (30, 40, 1)), 3, 4, palette + chunk(b"tRNS", bytes(range(16)))),
        png(rng.integers(0, 256, (5, 5, 3)), 2, extra=chunk(b"tEXt", b"a\0b") + chunk(b"acTL", bytes(8))),
    ]


def mutated(file: bytes, rng: random.Random) -> bytes:
    data = bytearray(file)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(7)
        if kind == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del data[at : at + rng.choice((1, 2, 7, 64))]
        elif kind == 3:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 9))))
        elif kind == 4:
            other = rng.randrange(len(data)) if data else 0
            data[at:at] = data[other : other + rng.randrange(40)]
        elif kind == 5 and rng.random() < 0.3:
            del data[at:]
        elif data:  # the headers are short, so they are hit on purpose
            data[rng.randrange(min(len(data), 700))] = rng.randrange(256)
    return bytes(data)


def with_right_checksums(file: bytes) -> bytes:
    """A damaged PNG whose chunks look right, so that the damage reaches the decoder."""
    parts, position = [file[:8]], 8
    while position + 12 <= len(file):
        length = int.from_bytes(file[position : position + 4], "big")
        body = file[position + 4 : position + 8 + length]
        parts.append(file[position : position + 4] + body + zlib.crc32(body).to_bytes(4, "big"))
        position += 12 + length
    return b"".join(parts) + file[position:]


def try_jpeg(file: bytes, rng: random.Random) -> bool:
    """Whether it gave a picture."""
    try:
        info = jpeg_header.parse(file)
        jpeg_header.refused(info, True)
        if info.width * info.height > MOST_PIXELS:
            return False
        guarded = Guarded(rng.choice(JPEG_FORMS), *info.shown)
        try:
            jpeg_decode.decode(file, info, guarded.pixels)
        finally:
            assert guarded.intact()
    except NpuError as error:
        assert error.code == codes.INVALID_PARAM
        return False
    return True


def try_png(file: bytes, rng: random.Random) -> bool:
    try:
        info = png_parse(file)
        if info.width * info.height > MOST_PIXELS:
            return False
        guarded = Guarded(rng.choice(PNG_FORMS), info.width, info.height)
        try:
            png_decode(file, info, guarded.pixels)
        finally:
            assert guarded.intact()
    except NpuError as error:
        assert error.code == codes.INVALID_PARAM
        return False
    return True


def fuzz(
    seeds: list[bytes],
    count: int,
    attempt: Callable[[bytes, random.Random], bool],
    good: Callable[[], None],
    fix: bool = False,
) -> None:
    rng = random.Random(count)
    pictures = 0
    for number in range(count):
        file = mutated(rng.choice(seeds), rng)
        pictures += attempt(with_right_checksums(file) if fix and number % 2 else file, rng)
        if number % 10 == 0:
            good()
    good()
    assert 0 < pictures < count  # neither did everything fail nor nothing


def good_jpeg() -> Callable[[], None]:
    file = jpeg(64, 48)
    expected, info = luma(file), jpeg_header.parse(file)

    def check() -> None:
        guarded = Guarded(1, 64, 48)
        jpeg_decode.decode(file, info, guarded.pixels)
        assert distance(guarded.pixels.planes[0], expected) <= 1

    return check


def good_png() -> Callable[[], None]:
    array = picture(30, 20)
    file = png(array, 2)

    def check() -> None:
        guarded = Guarded(12, 30, 20)
        png_decode(file, png_parse(file), guarded.pixels)
        assert np.array_equal(guarded.pixels.planes[0], array)

    return check


@pytest.mark.parametrize("count", [NORMAL, pytest.param(LONG, marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["turbo", "ffmpeg"])
def test_jpeg(engine: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "ffmpeg":
        monkeypatch.setattr(turbojpeg, "library", lambda: None)
    elif turbojpeg.library() is None:
        pytest.skip("no libturbojpeg on this system")
    fuzz(jpeg_seeds(), count, try_jpeg, good_jpeg())


@pytest.mark.parametrize("count", [NORMAL, pytest.param(LONG, marks=pytest.mark.slow)])
def test_png(count: int) -> None:
    fuzz(png_seeds(), count, try_png, good_png(), fix=True)


@pytest.mark.parametrize("count", [NORMAL, pytest.param(LONG, marks=pytest.mark.slow)])
def test_plain_noise(count: int) -> None:
    rng = random.Random(count)
    for number in range(count):
        body = rng.randbytes(rng.randrange(300))
        start = (b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")[number % 3]
        assert not try_jpeg(start + body, rng)
        assert not try_png(start + body, rng)
