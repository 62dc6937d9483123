"""JPEG encoding: what other decoders make of the files, tables of a program, restart markers, and the bound of the size."""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image

from softnpu.base.errors import NpuError, codes
from softnpu.media.codecs.jpeg.encode import JpegTables, bound, encode, standard_tables
from softnpu.media.codecs.jpeg.header import parse, refused
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels
from tests.unit.media.image_samples import by_opencv, distance, jpeg, luma, picture, planes_by_ffmpeg, psnr

NV12, NV21, GREY = 1, 2, 0
# Coefficients by their diagonals, up and down in turn (ITU-T T.81, figure A.6).
ZIGZAG = sorted(range(64), key=lambda k: (k // 8 + k % 8, k // 8 if (k // 8 + k % 8) % 2 else k % 8))
PACKED = {7: "yuyv", 8: "uyvy", 9: "yvyu", 10: "vyuy"}
FORMS = [GREY, NV12, NV21, *PACKED]
SIZES = [(1, 1), (2, 2), (3, 5), (7, 1), (1, 9), (16, 16), (17, 15), (31, 33), (64, 48), (70, 45), (129, 67)]


def planes_of(width: int, height: int, across: int, down: int, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Y, U, V of a picture, the chroma by plain averaging."""
    ycc = cv2.cvtColor(picture(width, height, seed), cv2.COLOR_RGB2YCrCb)
    y, v, u = (ycc[:, :, index] for index in range(3))
    size = (-(-width // across), -(-height // down))
    padded = [np.pad(plane, ((0, -height % down), (0, -width % across)), "edge") for plane in (u, v)]
    return [
        np.ascontiguousarray(y),
        *(cv2.resize(plane, size, interpolation=cv2.INTER_AREA).reshape(size[::-1]) for plane in padded),
    ]


def pixels(
    form: int, width: int, height: int, gap: int = 10, seed: int = 0
) -> tuple[Pixels, list[np.ndarray[Any, Any]]]:
    """A picture with gaps between its rows, filled with values that must not be seen, and its planes."""
    spec = pixel_format(form)
    y, u, v = planes_of(width, height, *(spec.chroma if form else (2, 2)), seed)
    if form == GREY:
        parts = [y]
    elif form in PACKED:
        even = np.pad(y, ((0, 0), (0, width & 1)), "edge")
        rows = {"y": [even[:, 0::2], even[:, 1::2]], "u": [u], "v": [v]}
        parts = [np.stack([rows[letter].pop(0) for letter in PACKED[form]], -1)]
    else:
        parts = [y, np.stack([u, v] if form == NV12 else [v, u], -1)]
    planes = []
    for part in parts:
        room = np.random.default_rng(1).integers(
            0, 255, (part.shape[0] + 1, part.shape[1] + gap, *part.shape[2:]), np.uint8
        )
        view = room[: part.shape[0], : part.shape[1]]
        view[...] = part
        planes.append(view)
    return Pixels(spec, planes, width, height), [y] if form == GREY else [y, u, v]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES)
def test_other_decoders_read_the_file(form: int, size: tuple[int, int]) -> None:
    source, planes = pixels(form, *size)
    for file in (encode(source, 95), encode(source, 95, standard_tables(95))):
        info = parse(file)
        assert refused(info, True) is None and (info.width, info.height) == size
        assert info.components == len(planes)
        decoded = planes_by_ffmpeg(file)
        for plane, expected in zip(decoded, planes, strict=True):
            assert plane.shape == expected.shape
            assert psnr(plane, expected) > 36
        assert psnr(luma(file), planes[0]) > 36
        assert Image.open(io.BytesIO(file)).size == size


@pytest.mark.parametrize("form", FORMS)
def test_only_pixels_of_the_picture_count(form: int) -> None:
    """What lies in the gaps of rows, or behind an odd side, is not in the file."""
    for size in ((33, 31), (32, 32)):
        source, _ = pixels(form, *size)
        tight = Pixels(source.format, [np.ascontiguousarray(plane) for plane in source.planes], *size)
        for other in (None, standard_tables(80)):
            assert encode(source, 80, other) == encode(tight, 80, other)


def test_colours_are_right() -> None:
    y, u, v = planes_of(96, 64, 2, 2)
    for form, pair in ((NV12, [u, v]), (NV21, [v, u])):
        source = Pixels(pixel_format(form), [y, np.stack(pair, -1)], 96, 64)
        assert psnr(by_opencv(encode(source, 95)), picture(96, 64)) > 25
    for form in PACKED:
        source, _ = pixels(form, 96, 64)
        assert psnr(by_opencv(encode(source, 95)), picture(96, 64)) > 26


def test_quality_is_the_scale_of_libjpeg() -> None:
    source, planes = pixels(NV12, 128, 96)
    sizes = [len(encode(source, quality)) for quality in (1, 10, 40, 75, 95, 100)]
    assert sizes == sorted(sizes) and len(set(sizes)) == len(sizes)
    reference = bytes(simplejpeg.encode_jpeg_yuv_planes(*(np.ascontiguousarray(p) for p in planes), 75))
    assert encode(source, 75) == reference


@pytest.mark.parametrize("quality", [-1, 0, 101])
def test_other_levels_are_errors(quality: int) -> None:
    source, _ = pixels(NV12, 16, 16)
    for tables in (None, JpegTables()):
        with pytest.raises(NpuError) as caught:
            encode(source, quality, tables)
        assert caught.value.code == codes.INVALID_PARAM


@pytest.mark.parametrize("form", [12, 18, 16])
def test_other_formats_are_errors(form: int) -> None:
    with pytest.raises(NpuError, match="does not take"):
        encode(Pixels.empty(pixel_format(form), 16, 16), 80)
    with pytest.raises(NpuError, match="does not take"):
        bound(16, 16, form)


def segments(file: bytes) -> list[tuple[int, bytes]]:
    contents, position = [], 2
    while True:
        marker, length = file[position + 1], int.from_bytes(file[position + 2 : position + 4], "big")
        contents.append((marker, file[position + 4 : position + 2 + length]))
        position += 2 + length
        if marker == 0xDA:
            return contents


def quantisation(file: bytes) -> dict[int, list[int]]:
    tables: dict[int, list[int]] = {}
    for marker, data in segments(file):
        if marker == 0xDB:
            for start in range(0, len(data), 65):
                row = [0] * 64
                for value, coefficient in zip(data[start + 1 : start + 65], ZIGZAG, strict=True):
                    row[coefficient] = value
                tables[data[start]] = row
    return tables


@pytest.mark.parametrize("quality", [1, 2, 25, 49, 50, 51, 75, 99, 100])
def test_standard_tables_are_those_of_libjpeg(quality: int) -> None:
    file = jpeg(16, 16, quality=quality)
    ours = standard_tables(quality)
    assert quantisation(file) == {0: list(ours.y_qt or ()), 1: list(ours.cb_qt or ())}
    theirs = [data for marker, data in segments(file) if marker == 0xC4]
    mine = [data for marker, data in segments(encode(pixels(NV12, 16, 16)[0], quality, ours)) if marker == 0xC4]
    assert sorted(theirs) == sorted(mine)


@pytest.mark.parametrize("quality", [5, 30, 50, 75, 90, 100])
@pytest.mark.parametrize("form", [GREY, NV12, 7])
def test_our_encoder_is_as_good_as_libjpeg(quality: int, form: int) -> None:
    source, planes = pixels(form, 203, 155)
    theirs, ours = encode(source, quality), encode(source, quality, standard_tables(quality))
    assert abs(len(ours) - len(theirs)) < 0.03 * len(theirs)
    for mine, other, plane in zip(planes_by_ffmpeg(ours), planes_by_ffmpeg(theirs), planes, strict=True):
        assert psnr(mine, plane) > psnr(other, plane) - 0.2
    simplejpeg.decode_jpeg(ours, strict=True)


def test_more_than_one_band() -> None:
    """Bits that fill no byte go on in the next band of blocks."""
    rng = np.random.default_rng(3)
    y = cv2.GaussianBlur(rng.integers(0, 256, (1030, 1410), np.uint8), (3, 3), 0)
    source = Pixels(pixel_format(GREY), [y], 1410, 1030)
    theirs = psnr(luma(encode(source, 80)), y)
    plain = luma(encode(source, 80, standard_tables(80)))
    assert psnr(plain, y) > theirs - 0.1
    for restart in (1, 176, 177, 9000, 65535):
        file = encode(source, 80, restart=restart)
        assert np.array_equal(simplejpeg.decode_jpeg(file, "GRAY", strict=True)[:, :, 0], plain)


@pytest.mark.parametrize("restart", [1, 2, 3, 7, 12, 1000])
@pytest.mark.parametrize("form", [GREY, NV12, 8])
def test_restart_markers(form: int, restart: int) -> None:
    source, _ = pixels(form, 150, 100)
    plain, marked = encode(source, 80, standard_tables(80)), encode(source, 80, restart=restart)
    assert (0xDD, restart.to_bytes(2, "big")) in segments(marked)
    units = -(-150 // (8 if form == GREY else 16)) * -(-100 // (16 if form == NV12 else 8))
    data = marked[marked.index(b"\xff\xda") :]
    markers = [data[at + 1] for at in range(len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]
    assert markers == [0xD0 + index % 8 for index in range((units - 1) // restart)]
    assert np.array_equal(simplejpeg.decode_jpeg(marked, strict=True), simplejpeg.decode_jpeg(plain, strict=True))
    with pytest.raises(NpuError):
        encode(source, 80, restart=65536)


def test_quantisation_tables_of_a_program() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.integers(1, 40, 64).tolist() for _ in range(3)]
    source, planes = pixels(NV12, 90, 70)
    file = encode(source, 50, JpegTables(*rows))
    assert quantisation(file) == dict(enumerate(rows))
    for plane, expected in zip(planes_by_ffmpeg(file), planes, strict=True):
        assert psnr(plane, expected) > 30
    only_luma = encode(source, 50, JpegTables(y_qt=[1] * 64))
    assert quantisation(only_luma) == {0: [1] * 64, 1: list(standard_tables(50).cb_qt or ())}
    assert psnr(luma(only_luma), planes[0]) > 50


def flat_tables(order: int = 1) -> dict[str, Any]:
    """All symbols with codes of one length; a valid table that nobody would choose."""
    dc_bits, ac_bits = [0] * 16, [0] * 16
    dc_bits[3], ac_bits[7] = 12, 162
    ac = [run << 4 | size for run in range(16) for size in range(1, 11)] + [0x00, 0xF0]
    return {
        "dc_bits": [dc_bits] * 3,
        "dc_values": [list(range(12))[::order]] * 3,
        "ac_bits": [ac_bits] * 3,
        "ac_values": [ac[::order]] * 3,
    }


@pytest.mark.parametrize("form", [GREY, NV12, 7])
def test_huffman_tables_of_a_program(form: int) -> None:
    source, _ = pixels(form, 90, 70)
    plain = encode(source, 80, standard_tables(80))
    file = encode(source, 80, JpegTables(**flat_tables()))
    assert len(file) != len(plain)
    assert np.array_equal(simplejpeg.decode_jpeg(file, strict=True), simplejpeg.decode_jpeg(plain, strict=True))
    assert [data[0] for marker, data in segments(file) if marker == 0xC4] == [0x00, 0x10]


def test_a_table_for_each_component_makes_an_extended_file() -> None:
    source, _ = pixels(NV12, 90, 70)
    standard, flat, back = standard_tables(80), flat_tables(), flat_tables(-1)
    mixed = {name: [getattr(standard, name)[0], flat[name][1], back[name][2]] for name in flat}
    file = encode(source, 80, JpegTables(**mixed))
    assert b"\xff\xc1" in file and b"\xff\xc0" not in file[: file.index(b"\xff\xda")]
    assert np.array_equal(
        simplejpeg.decode_jpeg(file, strict=True), simplejpeg.decode_jpeg(encode(source, 80, standard), strict=True)
    )


def test_padded_tables_of_the_interface_are_taken() -> None:
    """`dc_value` and `ac_value` always have 12 and 162 places."""
    tables = flat_tables()
    tables["dc_values"] = [[*range(12), 0, 0, 0]] * 3
    source, _ = pixels(NV12, 32, 32)
    assert encode(source, 80, JpegTables(**tables)) == encode(source, 80, JpegTables(**flat_tables()))


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"y_qt": [1] * 63}, "63 values"), ({"cr_qt": [0] * 64}, "from 0"), ({"cb_qt": [256] * 64}, "256"), ({"dc_bits": None}, "belong together"),
     ({"ac_values": None}, "belong together"), ({"dc_bits": [[1] * 15] * 3}, "numbers of codes"), ({"dc_bits": [[-1] + [1] * 15] * 3}, "numbers of codes"),
     ({"dc_bits": [[2] + [0] * 15] * 3}, "not so many"), ({"dc_values": [[0] * 12] * 3}, "12 codes"), ({"dc_values": [[*range(11), 12]] * 3}, "12 codes"),
     ({"dc_values": [[1, 2]] * 3}, "12 codes"), ({"ac_bits": [[0] * 16] * 3}, "0 codes"), ({"ac_bits": []}, "0 rows"), ({"dc_bits": [[0, 1] + [0] * 14] * 3}, "no code")],
)  # fmt: skip
def test_wrong_tables_say_what_is_wrong(change: dict[str, Any], reason: str) -> None:
    source, _ = pixels(NV12, 40, 40)
    with pytest.raises(NpuError, match=reason) as caught:
        encode(source, 80, JpegTables(**(flat_tables() | change)))
    assert caught.value.code == codes.INVALID_PARAM


def test_comment() -> None:
    source, _ = pixels(NV12, 40, 40)
    for tables in (None, standard_tables(80)):
        plain, commented = encode(source, 80, tables), encode(source, 80, tables, comment=True)
        extra = len(commented) - len(plain)
        assert 4 <= extra <= 19
        assert [data for marker, data in segments(commented) if marker == 0xFE]
        assert not [data for marker, data in segments(plain) if marker == 0xFE]
        assert np.array_equal(by_opencv(plain), by_opencv(commented))
        image = Image.open(io.BytesIO(commented))
        assert isinstance(image.info["comment"], bytes)


def hard_pictures(form: int, width: int, height: int) -> list[Pixels]:
    rng = np.random.default_rng(width * 1000 + height)
    spec = pixel_format(form)
    pictures = []
    for make in (
        lambda shape: rng.integers(0, 256, shape, np.uint8),
        lambda shape: rng.integers(0, 2, shape, np.uint8) * np.uint8(255),
        lambda shape: (np.indices(shape).sum(0) % 2 * 255).astype(np.uint8),
        lambda shape: (np.indices(shape)[0] // 8 % 2 * 255).astype(np.uint8),
    ):
        planes = [make(plane.shape) for plane in Pixels.empty(spec, width, height).planes]
        pictures.append(Pixels(spec, planes, width, height))
    return pictures


@pytest.mark.parametrize("form", FORMS)
def test_bound_is_an_upper_bound(form: int) -> None:
    sizes = [(w, h) for w in (1, 2, 7, 8, 9, 16, 17, 33, 64) for h in (1, 3, 8, 15, 16, 17, 40)] + [
        (512, 512),
        (640, 3),
        (3, 640),
    ]
    for width, height in sizes:
        limit = bound(width, height, form)
        for source in hard_pictures(form, width, height):
            assert len(encode(source, 100, comment=True)) <= limit
    ours = encode(hard_pictures(form, 256, 256)[1], 100, standard_tables(100), comment=True, restart=1)
    assert len(ours) <= bound(256, 256, form)


def test_bound_holds_for_the_worst_block_found() -> None:
    """Signs of +-128 with a flat spectrum, chosen out of many by the size of the file."""
    rng = np.random.default_rng(7)
    blocks = rng.integers(0, 2, (4000, 8, 8), np.uint8) * np.uint8(255)
    lengths = [len(encode(Pixels(pixel_format(GREY), [block], 8, 8), 100)) for block in blocks]
    worst = blocks[int(np.argmax(lengths))]
    tiled = np.tile(worst, (32, 32))
    size = len(encode(Pixels(pixel_format(GREY), [tiled], 256, 256), 100))
    assert size > 1.6 * 256 * 256  # it is a hard picture
    assert size <= bound(256, 256, GREY)


def test_source_is_not_changed() -> None:
    source, _ = pixels(NV12, 33, 31)
    before = [plane.copy() for plane in source.planes]
    encode(source, 80)
    encode(source, 80, standard_tables(80))
    assert all(distance(plane, old) == 0 for plane, old in zip(source.planes, before, strict=True))
