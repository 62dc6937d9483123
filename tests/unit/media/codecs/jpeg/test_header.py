"""JPEG headers: what is read, what is refused, and that no bytes whatever do harm."""

from __future__ import annotations

import io
import struct
import time

import numpy as np
import pytest
from PIL import Image

from softnpu.base.errors import NpuError, codes
from softnpu.media.codecs.jpeg.header import JpegInfo, parse, refused
from tests.unit.media.image_samples import jpeg, picture, pillow_jpeg, three_scans, with_orientation


def broken(data: object) -> str:
    with pytest.raises(NpuError) as caught:
        parse(data)
    assert caught.value.code == codes.INVALID_PARAM and caught.value.remedy
    return caught.value.text


def patched(file: bytes, marker: int, offset: int, new: bytes) -> bytes:
    """The file with bytes of the contents of its first segment of this marker replaced."""
    at = file.index(bytes([0xFF, marker])) + 4 + offset
    return file[:at] + new + file[at + len(new) :]


def as_frame(file: bytes, marker: int) -> bytes:
    at = file.index(b"\xff\xc0") + 1
    return file[:at] + bytes([marker]) + file[at + 1 :]


@pytest.mark.parametrize("sampling", ["444", "422", "420", "440", "411", "400"])
def test_size_and_sampling(sampling: str) -> None:
    info = parse(jpeg(70, 45, sampling))
    assert (info.width, info.height, info.components) == (70, 45, 1 if sampling == "400" else 3)
    assert info.sampling == sampling
    assert (info.scans, info.complete, info.precision, info.orientation, info.shown) == (1, True, 8, 1, (70, 45))
    assert (refused(info, True) is not None) == (sampling == "411")


def test_any_bytes_like_object_is_taken() -> None:
    file = jpeg(32, 32)
    expected = parse(file)
    array = np.frombuffer(file, np.uint8)
    for data in (
        bytearray(file),
        memoryview(file),
        array,
        array.view(np.int8),
        np.frombuffer(file[:-1] + b"\0\0", np.uint8)[: len(file)],
    ):
        assert parse(data).width == expected.width
    assert "in one piece" in broken(array[::2])
    assert "in one piece" in broken("text")
    assert "in one piece" in broken(None)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(orientation: int, order: str) -> None:
    info = parse(with_orientation(jpeg(40, 24), orientation, order))
    assert info.orientation == orientation
    assert info.shown == ((24, 40) if orientation >= 5 else (40, 24))


def test_orientation_that_pillow_writes() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "a maker"
    info = parse(pillow_jpeg(40, 24, exif=exif))
    assert info.orientation == 6


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_unreadable_orientation_is_ignored(value: int) -> None:
    assert parse(with_orientation(jpeg(40, 24), value)).orientation == 1


def test_damaged_exif_is_ignored() -> None:
    file = with_orientation(jpeg(40, 24), 6)
    at = file.index(b"Exif\0\0")
    for offset, new in ((6, b"XX"), (8, b"\0\0"), (10, b"\xff\xff\xff\xff"), (14, b"\xff\xff")):
        changed = file[: at + offset] + new + file[at + offset + len(new) :]
        assert parse(changed).orientation in (1, 6)
    assert parse(file[: at + 10] + b"\xff\xff\xff\x7f" + file[at + 14 :]).orientation == 1


@pytest.mark.parametrize(
    ("marker", "reason"),
    [(0xC2, "progressive"), (0xC3, "lossless"), (0xC5, "hierarchical"), (0xC6, "hierarchical"), (0xC7, "hierarchical"), (0xC9, "arithmetic"),
     (0xCA, "arithmetic"), (0xCB, "lossless"), (0xCD, "hierarchical"), (0xCE, "hierarchical"), (0xCF, "hierarchical")],
)  # fmt: skip
def test_coding_processes_that_are_refused(marker: int, reason: str) -> None:
    info = parse(as_frame(jpeg(32, 32), marker))
    for strict in (False, True):
        assert reason in (refused(info, strict) or "")


def test_progressive_by_pillow_is_refused() -> None:
    info = parse(pillow_jpeg(64, 64, progressive=True))
    assert info.progressive and info.scans is not None and info.scans > 1 and info.complete
    assert "progressive" in (refused(info, False) or "")


def test_extended_sequential_is_accepted() -> None:
    assert refused(parse(as_frame(jpeg(32, 32), 0xC1)), True) is None


def test_arithmetic_conditioning_is_refused() -> None:
    file = jpeg(32, 32)
    assert "arithmetic" in (refused(parse(file[:2] + b"\xff\xcc\x00\x04\x00\x00" + file[2:]), False) or "")


def test_other_precision_and_cmyk_are_refused() -> None:
    assert "12 bits" in (refused(parse(patched(jpeg(32, 32), 0xC0, 0, b"\x0c")), False) or "")
    file = io.BytesIO()
    Image.fromarray(picture(32, 32)).convert("CMYK").save(file, "JPEG")
    info = parse(file.getvalue())
    assert info.components == 4
    assert "4 colour components" in (refused(info, False) or "")


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((0x22, 0x22, 0x22), "444"), ((0x22, 0x12, 0x12), "422"), ((0x22, 0x21, 0x21), "440"), ((0x41, 0x11, 0x11), "411"), ((0x42, 0x11, 0x11), "unknown"),
     ((0x22, 0x11, 0x21), "unknown"), ((0x11, 0x22, 0x22), "unknown"), ((0x31, 0x11, 0x11), "unknown"), ((0x32, 0x21, 0x21), "unknown")],
)  # fmt: skip
def test_sampling_is_the_ratio_of_the_factors(factors: tuple[int, int, int], expected: str) -> None:
    file = jpeg(32, 32)
    for index, factor in enumerate(factors):
        file = patched(file, 0xC0, 7 + 3 * index, bytes([factor]))
    info = parse(file)
    assert info.sampling == expected
    assert (refused(info, False) is None) == (expected in ("444", "422", "440"))


def test_three_scans() -> None:
    rgb = picture(48, 40)
    file = three_scans([rgb[:, :, index] for index in range(3)])
    info = parse(file)
    assert (info.scans, info.complete, info.sampling) == (3, True, "444")
    assert refused(info, True) is None
    cut = parse(file[:-2])
    assert (cut.scans, cut.complete) == (3, False)


def test_end_marker() -> None:
    file = jpeg(48, 48)
    for tail in (b"", b"\0" * 100, b"garbage \xff\xd8", b"\xff"):
        assert parse(file + tail).complete
        without = parse(file[:-2] + tail)
        assert not without.complete
        assert refused(without, False) is None
        assert "end marker" in (refused(without, True) or "")
    # A thumbnail's end marker in a segment is not the end of the file.
    segment = b"\xff\xe2" + struct.pack(">H", 8) + b"\xff\xd8..\xff\xd9"
    assert not parse(file[:2] + segment + file[2:-2]).complete


def test_fill_bytes_and_rubbish_between_segments() -> None:
    file = jpeg(48, 32)
    assert parse(file[:2] + b"\xff" * 1000 + file[2:]).width == 48
    segment = b"\xff\xee\x00\x02"
    assert parse(file[:2] + segment + b"rubbish\xff\x00\xff\xff" + file[2:]).width == 48


def test_rgb_components_are_told_from_ycc() -> None:
    file = jpeg(32, 32, "444")
    plain = file[:2] + file[20:]  # without JFIF
    assert not parse(plain).rgb
    adobe = b"\xff\xee\x00\x0eAdobe\0\x64\0\0\0\0"
    assert parse(file[:2] + adobe + b"\0" + file[20:]).rgb
    assert not parse(file[:2] + adobe + b"\1" + file[20:]).rgb
    assert not parse(file[:20] + adobe + b"\0" + file[20:]).rgb
    for index, name in enumerate(b"RGB"):
        plain = patched(plain, 0xC0, 6 + 3 * index, bytes([name]))
    at = plain.index(b"\xff\xda")
    assert parse(plain[:at] + plain[at:]).rgb


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "begin"), (b"\xff", "begin"), (b"\xff\xd8", "begin"), (b"\xff\xd8\xff", "no further marker"), (b"\xff\xd8\xff\xd9", "before any picture"),
     (b"\xff\xd8\xff\xd8\xff", "before any picture"), (b"\xff\xd8\xff\xe0", "length 0"), (b"\xff\xd8\xff\xe0\x00", "length"), (b"\xff\xd8\xff\xe0\x00\x01", "length 1"),
     (b"\xff\xd8\xff\xe0\xff\xff", "length 65535"), (b"\xff\xd8\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00", "before its frame"), (b"\xff\xd8\xff\xc0\x00\x02", "frame header"),
     (b"\x89PNG\r\n\x1a\n", "begin"), (b"RIFF", "begin")],
)  # fmt: skip
def test_broken_headers(data: bytes, reason: str) -> None:
    assert reason in broken(data)


def test_broken_frames() -> None:
    file = jpeg(32, 32)
    assert "0x32" in broken(patched(file, 0xC0, 3, b"\0\0"))
    assert "32x0" in broken(patched(file, 0xC0, 1, b"\0\0"))
    assert "frame header" in broken(patched(file, 0xC0, 5, b"\4"))
    assert "sampling factors" in broken(patched(file, 0xC0, 7, b"\x02"))
    assert "sampling factors" in broken(patched(file, 0xC0, 7, b"\x52"))
    assert "scan header" in broken(patched(file, 0xDA, 0, b"\4"))
    assert "scan header" in broken(patched(file, 0xDA, 0, b"\0"))
    at = file.index(b"\xff\xc0")
    assert "two frame headers" in broken(file[:at] + file[at : at + 19] + file[at:])


def test_every_truncation_of_a_header_is_an_error() -> None:
    file = with_orientation(jpeg(32, 32), 3)
    end = file.index(b"\xff\xda") + 14
    for size in range(end):
        broken(file[:size])
    assert not parse(file[:end]).complete


def test_a_huge_size_is_refused_without_memory() -> None:
    info = parse(patched(jpeg(16, 16), 0xC0, 1, b"\xff\xff\xff\xff")[:700])
    assert (info.width, info.height) == (65535, 65535)
    assert "65535x65535" in (refused(info, False) or "")
    assert refused(JpegInfo(16384, 16384, 3, "420", complete=True), True) is None


@pytest.mark.parametrize(
    "filler", [b"\xff", b"\xff\x00", b"\x00", b"\xff\xd0", b"\xff\x01", b"\xff\xe1\x00\x02", b"\xff\xc4\x00\x02"]
)
def test_parsing_is_linear(filler: bytes) -> None:
    def seconds(size: int) -> float:
        data = b"\xff\xd8\xff\xe0\x00\x02" + filler * (size // len(filler))
        best = 9.0
        for _ in range(3):
            start = time.process_time()
            broken(data)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(1 << 18) < 30 * max(seconds(1 << 15), 1e-4)
