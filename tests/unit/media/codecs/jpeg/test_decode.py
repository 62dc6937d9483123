"""JPEG decoding against libjpeg-turbo (simplejpeg, Pillow) and FFmpeg, with and without the system's libturbojpeg."""

from __future__ import annotations

import gc
import io
import threading
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageOps

from softnpu.base.errors import NpuError, codes
from softnpu.media import turbojpeg
from softnpu.media.codecs.jpeg import turbo
from softnpu.media.codecs.jpeg.decode import decode, native_format, output_strides
from softnpu.media.codecs.jpeg.header import JpegInfo, parse
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import Pixels
from tests.unit.media.image_samples import (
    Guarded,
    distance,
    jpeg,
    luma,
    picture,
    pillow_jpeg,
    planes_by_ffmpeg,
    psnr,
    three_scans,
    with_orientation,
)

NV12, NV21 = 1, 2
SAMPLINGS = ["444", "422", "420", "440", "400"]
PLANAR = {"444": 57, "422": 56, "420": 55, "440": 65, "400": 0}
SEMI = {"444": (5, 6), "422": (3, 4), "420": (1, 2), "440": (1000, 1001), "400": (1, 2)}
SIZES = [
    (1, 1),
    (2, 2),
    (3, 5),
    (7, 1),
    (1, 9),
    (15, 16),
    (16, 17),
    (31, 33),
    (33, 31),
    (64, 48),
    (66, 50),
    (70, 45),
    (129, 65),
    (320, 18),
]


@pytest.fixture(params=["turbo", "ffmpeg"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test with it runs once for each of the two decoders."""
    if request.param == "ffmpeg":
        monkeypatch.setattr(turbojpeg, "library", lambda: None)
    elif turbojpeg.library() is None:
        pytest.skip("no libturbojpeg on this system")
    return str(request.param)


def decoded(file: bytes, form: int, size: tuple[int, int] | None = None) -> Pixels:
    info = parse(file)
    guarded = Guarded(form, *(size or info.shown))
    decode(file, info, guarded.pixels)
    assert guarded.intact(), "bytes outside of the planes were written"
    return guarded.pixels


def channels(pixels: Pixels) -> dict[str, Any]:
    by_letter = {}
    for spec, plane in zip(pixels.format.planes, pixels.planes, strict=True):
        for index, letter in enumerate(spec.channels):
            by_letter[letter] = plane if plane.ndim == 2 else plane[:, :, index]
    return by_letter


def damaged(file: bytes, form: int = NV12) -> str:
    info = parse(file)
    with pytest.raises(NpuError) as caught:
        decode(file, info, Pixels.empty(pixel_format(form), *info.shown))
    assert caught.value.code == codes.INVALID_PARAM and caught.value.remedy
    return caught.value.text


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("size", SIZES)
def test_planes_as_in_the_file(engine: str, sampling: str, size: tuple[int, int]) -> None:
    file = jpeg(*size, sampling)
    planes = decoded(file, PLANAR[sampling]).planes
    expected = planes_by_ffmpeg(file)
    assert len(planes) == len(expected)
    for plane, other in zip(planes, expected, strict=True):
        assert distance(plane, other) <= 1
    assert distance(planes[0], luma(file)) <= 1


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("size", [(1, 1), (33, 31), (64, 48), (70, 45)])
def test_semi_planar_in_both_orders(engine: str, sampling: str, size: tuple[int, int]) -> None:
    file = jpeg(*size, sampling)
    expected = planes_by_ffmpeg(file)
    for form in SEMI[sampling]:
        planes = channels(decoded(file, form))
        assert distance(planes["y"], expected[0]) <= 1
        for letter, plane in zip("uv", expected[1:], strict=False):
            assert distance(planes[letter], plane) <= 1
        if sampling == "400":
            assert (planes["u"] == 0x80).all() and (planes["v"] == 0x80).all()


@pytest.mark.parametrize("sampling", ["444", "422", "440"])
@pytest.mark.parametrize("size", [(64, 48), (70, 46)])
def test_chroma_is_averaged_for_nv12(engine: str, sampling: str, size: tuple[int, int]) -> None:
    file = jpeg(*size, sampling)
    expected = planes_by_ffmpeg(file)
    for form in (NV12, NV21):
        planes = channels(decoded(file, form))
        assert distance(planes["y"], expected[0]) <= 1
        for letter, plane in zip("uv", expected[1:], strict=True):
            down, across = plane.shape[0] * 2 // size[1], plane.shape[1] * 2 // size[0]
            mean = plane.reshape(size[1] // 2, down, size[0] // 2, across).mean((1, 3))
            assert np.abs(planes[letter] - mean).max() <= 1.5


def test_grey_and_colour(engine: str) -> None:
    for sampling in SAMPLINGS:
        file = jpeg(50, 34, sampling)
        assert distance(decoded(file, 0).planes[0], luma(file)) <= 1


@pytest.mark.parametrize("form", [12, 13])
def test_rgb(engine: str, form: int) -> None:
    for sampling, limit in (("444", 2), ("422", 3), ("420", 3), ("400", 1)):
        file = jpeg(64, 48, sampling)
        expected = simplejpeg.decode_jpeg(file, "RGB" if form == 12 else "BGR", fastupsample=True)
        assert distance(decoded(file, form).planes[0], expected) <= limit


def test_pillow_agrees_on_ycc(engine: str) -> None:
    file = pillow_jpeg(83, 61, quality=90, subsampling=0)
    image = Image.open(io.BytesIO(file))
    image.draft("YCbCr", image.size)
    expected = np.asarray(image)
    assert expected.shape == (61, 83, 3)
    for index, plane in enumerate(decoded(file, 57).planes):
        assert distance(plane, expected[:, :, index]) <= 1


@pytest.mark.parametrize("factors", [(0x22, 0x22, 0x22), (0x22, 0x12, 0x12), (0x22, 0x21, 0x21), (0x12, 0x11, 0x11)])
@pytest.mark.parametrize("size", [(64, 48), (35, 33)])
def test_unusual_sampling_factors_stay_inside(engine: str, factors: tuple[int, ...], size: tuple[int, int]) -> None:
    """The data does not fit such a header, so that most fail; none may write outside or raise anything else."""
    file = jpeg(*size, "420")
    at = file.index(b"\xff\xc0") + 11
    for index, factor in enumerate(factors):
        file = file[: at + 3 * index] + bytes([factor]) + file[at + 3 * index + 1 :]
    info = parse(file)
    for form in (PLANAR[info.sampling], SEMI[info.sampling][0], NV12):
        guarded = Guarded(form, *info.shown)
        try:
            decode(file, info, guarded.pixels)
        except NpuError as error:
            assert error.code == codes.INVALID_PARAM
        assert guarded.intact()


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(64, 40), (37, 23)])
def test_orientation(engine: str, sampling: str, orientation: int, size: tuple[int, int]) -> None:
    plain = jpeg(*size, sampling)
    file = with_orientation(plain, orientation)
    planes = [turned(plane, orientation) for plane in planes_by_ffmpeg(plain)]
    straight = sampling if orientation < 5 else {"422": "440", "440": "422"}.get(sampling, sampling)
    planar = channels(decoded(file, PLANAR[straight]))
    for letter, plane in zip("yuv", planes, strict=False):
        assert distance(planar[letter], plane) <= 1
    semi = channels(decoded(file, SEMI[straight][1]))
    for letter, plane in zip("yuv", planes, strict=False):
        assert distance(semi[letter], plane) <= 1


def turned(plane: np.ndarray[Any, Any], orientation: int) -> np.ndarray[Any, Any]:
    """What Pillow makes of a plane with this orientation."""
    image = Image.fromarray(plane)
    image.getexif()[0x0112] = orientation
    result = ImageOps.exif_transpose(image)
    assert result is not None
    return np.asarray(result)


@pytest.mark.parametrize("orientation", [1, 3, 6, 7])
def test_orientation_in_colour(engine: str, orientation: int) -> None:
    file = with_orientation(jpeg(64, 48, "420"), orientation)
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    assert image is not None
    assert psnr(decoded(file, 12).planes[0], np.asarray(image)) > 28  # Pillow smooths the chroma, we repeat it


def test_a_turned_422_picture_stays_422_where_asked(engine: str) -> None:
    plain = jpeg(64, 48, "422")
    planes = channels(decoded(with_orientation(plain, 6), 3))
    for letter, plane in zip("uv", planes_by_ffmpeg(plain)[1:], strict=True):
        wide = np.repeat(turned(plane, 6), 2, axis=0)
        assert np.abs(planes[letter] - wide.reshape(64, 24, 2).mean(2)).max() <= 1.5


@pytest.mark.parametrize("orientation", [1, 6])
def test_an_odd_side_may_be_cut_or_continued(engine: str, orientation: int) -> None:
    plain = jpeg(33, 31, "420")
    file = with_orientation(plain, orientation)
    expected = turned(luma(plain), orientation)
    height, width = expected.shape
    small = decoded(file, NV12, (width - 1, height - 1))
    assert distance(small.planes[0], expected[: height - 1, : width - 1]) <= 1
    large = decoded(file, NV12, (width + 1, height + 1)).planes[0]
    assert distance(large[:height, :width], expected) <= 1
    beyond = np.abs(large.astype(int) - np.pad(expected, ((0, 1), (0, 1)), "edge"))
    assert beyond.max() <= (
        16 if engine == "turbo" and orientation == 1 else 1
    )  # what the file holds there, or the edge again
    for size in ((width + 2, height), (width, height - 2), (height, width + 7)):
        with pytest.raises(NpuError):
            decode(file, parse(file), Pixels.empty(pixel_format(NV12), *size))


def test_an_even_side_must_fit() -> None:
    file = jpeg(32, 32)
    with pytest.raises(NpuError, match="32 pixels wide"):
        decode(file, parse(file), Pixels.empty(pixel_format(NV12), 31, 32))


def test_a_file_in_rgb_components(engine: str) -> None:
    rgb = picture(48, 40)
    file = three_scans([rgb[:, :, index] for index in range(3)])
    file = file[:2] + b"\xff\xee\x00\x0eAdobe\0\x64\0\0\0\0\0" + file[20:]  # Adobe's marker in the place of JFIF's
    assert parse(file).rgb
    assert psnr(decoded(file, 12).planes[0], rgb) > 35
    assert psnr(decoded(file, NV12).planes[0], (rgb @ [0.299, 0.587, 0.114]).round()) > 35


def test_three_scans(engine: str) -> None:
    parts = [picture(48, 40, seed)[:, :, 0] for seed in range(3)]
    planes = decoded(three_scans(parts), 57).planes
    for plane, part in zip(planes, parts, strict=True):
        assert (
            distance(
                plane, luma(bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(part[:, :, None]), 85, "GRAY", "Gray")))
            )
            <= 1
        )


def test_restart_markers(engine: str) -> None:
    file = pillow_jpeg(90, 70, quality=80, restart_marker_blocks=3)
    assert b"\xff\xdd" in file
    assert distance(decoded(file, NV12).planes[0], luma(file)) <= 1


def test_extended_sequential(engine: str) -> None:
    file = jpeg(64, 48)
    extended = file.replace(b"\xff\xc0", b"\xff\xc1", 1)
    assert distance(decoded(extended, NV12).planes[0], luma(file)) <= 1


@pytest.mark.parametrize("tail", [b"", b"\0" * 777, b"\xff", b"some other bytes", b"\xff\xd8\xff\xe0\xff\xff"])
def test_what_follows_the_end_is_ignored(engine: str, tail: bytes) -> None:
    file = jpeg(64, 48)
    assert distance(decoded(file + tail, NV12).planes[0], luma(file)) <= 1


def test_a_file_that_only_lacks_its_end_marker_decodes(engine: str) -> None:
    file = jpeg(64, 48)
    assert distance(decoded(file[:-2], NV12).planes[0], luma(file)) <= 1
    assert distance(decoded(file[:-1], NV12).planes[0], luma(file)) <= 1


def test_rubbish_before_the_end_marker_is_harmless(engine: str) -> None:
    file = jpeg(64, 48)
    assert distance(decoded(file[:-2] + b"\0\0\0\0\xff\xd9", NV12).planes[0], luma(file)) <= 1


def test_truncated_files_fail(engine: str) -> None:
    file = jpeg(64, 48, quality=90)
    start = file.index(b"\xff\xda") + 14
    expected = luma(file)
    for size in range(start, len(file) - 8, 37):
        assert "damaged" in damaged(file[:size])
        if engine == "turbo" or size < len(file) - 150:  # FFmpeg takes what is missing of the last unit for zeros
            assert "damaged" in damaged(file[:size] + b"\xff\xd9")
    for size in range(len(file) - 8, len(file)):  # the last bits of the last block are not missed
        try:
            pixels = decoded(file[:size], NV12)
        except NpuError:
            continue
        assert distance(pixels.planes[0][:-16], expected[:-16]) <= 1
    assert distance(decoded(file, NV12).planes[0], expected) <= 1


def test_a_decoder_recovers_from_damage(engine: str) -> None:
    good = jpeg(64, 48)
    expected = luma(good)
    start = good.index(b"\xff\xda") + 14
    bad = good[:start] + b"\xff\xc4\x00\x05\x00\x00\x00" + good[start + 50 :]
    table = good.index(b"\xff\xc4") + 5
    worse = good[:table] + b"\xff" * 16 + good[table + 16 :]  # an error inside of the header
    for file in (bad, worse, bad):
        damaged(file)
        assert distance(decoded(good, NV12).planes[0], expected) <= 1


def test_refused_files_say_why(engine: str) -> None:
    assert "progressive" in damaged(pillow_jpeg(32, 32, progressive=True))
    assert "411" in damaged(jpeg(32, 32, "411"))
    info = JpegInfo(65535, 65535, 3, "420", complete=True, factors=((2, 2), (1, 1), (1, 1)))
    with pytest.raises(NpuError, match="larger than"):
        decode(b"", info, Pixels.empty(pixel_format(NV12), 16, 16))


def test_a_header_that_changed_after_parsing_is_damage(engine: str) -> None:
    """A program may write into the buffer meanwhile: the decoder compares before it writes."""
    info = parse(jpeg(64, 48))
    for other in (jpeg(640, 480), jpeg(64, 48, "444"), jpeg(64, 48, "400"), jpeg(48, 64)):
        guarded = Guarded(NV12, 64, 48)
        with pytest.raises(NpuError):
            decode(other, info, guarded.pixels)
        assert guarded.intact()


def test_large_sides(engine: str) -> None:
    for size in ((16384, 8), (8, 16384)):
        file = jpeg(*size)
        assert distance(decoded(file, NV12).planes[0], luma(file)) <= 1


def test_threads_have_decoders_of_their_own(engine: str) -> None:
    files = [jpeg(200, 120, "420", seed=seed) for seed in range(6)]
    expected = [luma(file) for file in files]
    wrong: list[object] = []

    def work(index: int) -> None:
        try:
            for round_ in range(10):
                which = (index + round_) % len(files)
                wrong.extend([which] * (distance(decoded(files[which], NV12).planes[0], expected[which]) > 1))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


@pytest.mark.skipif(turbojpeg.library() is None, reason="no libturbojpeg on this system")
def test_the_decoder_of_a_thread_ends_with_it() -> None:
    def live() -> int:
        gc.collect()
        return sum(type(item) is turbojpeg.Decoder for item in gc.get_objects())  # isinstance would ask proxies

    before = live()
    seen = []

    def work() -> None:
        decoded(jpeg(32, 32), NV12)
        seen.append(live())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert seen == [before + 1]
    assert live() == before


@pytest.mark.skipif(turbojpeg.library() is None, reason="no libturbojpeg on this system")
def test_luma_is_decoded_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy of the luma on the way every program takes."""
    asked = []
    original = turbo.decode

    def watched(*args: Any) -> Any:
        planes = original(*args)
        asked.append(planes[0])
        return planes

    monkeypatch.setattr(turbo, "decode", watched)
    file = jpeg(64, 48)
    guarded = Guarded(NV12, 64, 48)
    decode(file, parse(file), guarded.pixels)
    assert asked[0] is guarded.pixels.planes[0]


def test_native_format() -> None:
    assert {s: native_format(parse(jpeg(32, 32, s))) for s in SAMPLINGS} == {
        "444": 6,
        "422": 4,
        "420": 2,
        "440": 1001,
        "400": 2,
    }
    with pytest.raises(NpuError):
        native_format(parse(jpeg(32, 32, "411")))


@pytest.mark.parametrize(
    ("size", "form", "family", "expected"),
    [((1000, 500), 1, "310", (1024, 512)), ((1000, 500), 1, "910", (1024, 512)), ((1000, 500), 1, "310P", (1024, 512)), ((961, 17), 1, "310", (1024, 32)),
     ((961, 17), 1, "310B", (1024, 32)), ((900, 16), 5, "910B", (960, 16)), ((900, 16), 5, "310", (1024, 16)), ((900, 16), 12, "910B", (2880, 16)), ((900, 16), 0, "A3", (960, 16))],
)  # fmt: skip
def test_output_strides(size: tuple[int, int], form: int, family: str, expected: tuple[int, int]) -> None:
    assert output_strides(size, form, family) == expected
    assert output_strides(size, pixel_format(form), family) == expected


def test_output_strides_follow_the_orientation() -> None:
    assert output_strides(parse(with_orientation(jpeg(300, 40), 6)), NV12, "310P") == (64, 304)
