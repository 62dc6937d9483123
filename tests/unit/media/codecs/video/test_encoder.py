"""The encoder's streams, read by ffprobe and decoded by FFmpeg."""

import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.codecs.video import annexb
from softnpu.media.codecs.video.encoder import VideoEncoder
from softnpu.media.codecs.video.settings import EncoderSettings, Vui, pixel_aspect
from softnpu.media.pixels.formats import NV12, NV21, RGB_888, pixel_format
from softnpu.media.pixels.picture import Pixels
from tests.unit.media.video_streams import moving, plain, probe, sps_of

CODECS = ["h264", "hevc"]


def picture(frame, form=NV12, stride=0):
    """A frame as NV12 or NV21 with rows of `stride` bytes."""
    width, height = frame.width, frame.height
    stride = stride or width
    memory = np.full((height * 3 // 2, stride), 77, np.uint8)
    views = [
        memory[:height, :width],
        np.lib.stride_tricks.as_strided(memory[height:], (height // 2, width // 2, 2), (stride, 2, 1)),
    ]
    planes = [
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        for plane in frame.planes
    ]
    views[0][...] = planes[0]
    views[1][..., 0], views[1][..., 1] = planes[1:] if form == NV12 else (planes[2], planes[1])
    return Pixels(pixel_format(form), views, width, height)


def noise(count, width, height):
    generator = np.random.default_rng(3)
    for _ in range(count):
        pixels = Pixels.empty(pixel_format(NV12), width, height)
        pixels.planes[0][...] = generator.integers(0, 256, pixels.planes[0].shape)
        pixels.planes[1][...] = generator.integers(0, 256, pixels.planes[1].shape)
        yield pixels


def run(codec, settings, count=20, size=(320, 240), form=NV12, force=(), stride=0):
    encoder = VideoEncoder(codec, *size, settings)
    result = []
    for index, frame in enumerate(moving(count, *size)):
        result += encoder.send(picture(frame, form, stride), index, index in force)
    return result + encoder.flush()


def joined(encoded):
    return b"".join(coded.data for coded in encoded)


def psnr(codec, encoded, size):
    worst = 1000.0
    for got, frame in zip(plain(codec, [joined(encoded)]), moving(len(encoded), *size), strict=True):
        wanted = frame.to_ndarray().astype(float)
        got = got.astype(float) / (4 if got.dtype == np.uint16 else 1)
        worst = min(worst, 10 * np.log10(255**2 / max(np.mean((got - wanted) ** 2), 1e-9)))
    return worst


@pytest.mark.parametrize(
    ("codec", "profile", "name"),
    [
        ("h264", "baseline", "Constrained Baseline"),
        ("h264", "main", "Main"),
        ("h264", "high", "High"),
        ("hevc", "main", "Main"),
        ("hevc", "main10", "Main 10"),
    ],
)
def test_a_stream_is_what_was_asked_for(codec, profile, name):
    encoded = run(codec, EncoderSettings(gop=6, profile=profile, bit_rate_kbps=4000, frame_rate=25))
    stream, frames = probe(joined(encoded), codec)
    assert (stream["width"], stream["height"], stream["profile"]) == (320, 240, name)
    assert stream["r_frame_rate"] == "25/1"
    assert [key for _, key in frames] == [index % 6 == 0 for index in range(20)]
    assert [kind for kind, _ in frames] == ["I" if index % 6 == 0 else "P" for index in range(20)]
    assert [coded.key for coded in encoded] == [key for _, key in frames]
    assert [coded.token for coded in encoded] == list(range(20))
    assert psnr(codec, encoded, (320, 240)) > 30


@pytest.mark.parametrize("codec", CODECS)
def test_each_picture_comes_at_once_and_is_taken_during_the_call(codec):
    encoder = VideoEncoder(codec, 320, 240, EncoderSettings())
    encoded = []
    for index, frame in enumerate(moving(6, 320, 240)):
        pixels = picture(frame)
        (coded,) = encoder.send(pixels, index)
        pixels.planes[0][...] = 0
        pixels.planes[1][...] = 0
        encoded.append(coded)
    assert encoder.flush() == []
    assert psnr(codec, encoded, (320, 240)) > 30


@pytest.mark.parametrize(("codec", "heads"), [("h264", [7, 8, 5]), ("hevc", [32, 33, 34, 19])])
def test_units_name_the_parameter_sets_and_cover_the_data(codec, heads):
    encoded = run(codec, EncoderSettings(gop=4), 9)
    for index, coded in enumerate(encoded):
        assert [kind for kind, _, _ in coded.units] == (heads if index % 4 == 0 else [1])
        assert b"".join(coded.data[at : at + size] for _, at, size in coded.units) == coded.data
    assert annexb.access_units(joined(encoded), codec) == [coded.data for coded in encoded]


@pytest.mark.parametrize("codec", CODECS)
def test_forced_key_pictures(codec):
    encoded = run(codec, EncoderSettings(gop=100), 12, force=(5, 6))
    _, frames = probe(joined(encoded), codec)
    assert [index for index, (_, key) in enumerate(frames) if key] == [0, 5, 6]
    assert sps_of(encoded[5].data, codec) is not None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("form", "stride"), [(NV12, 0), (NV12, 384), (NV21, 336)])
def test_layouts_of_the_input(codec, form, stride):
    encoded = run(codec, EncoderSettings(bit_rate_kbps=4000), 5, (322, 182), form, stride=stride)
    assert psnr(codec, encoded, (322, 182)) > 30


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("mode", ["cbr", "vbr", "avbr", "qvbr", "cvbr"])
def test_bit_rate_of_noise_is_near_the_target(codec, mode):
    settings = EncoderSettings(gop=30, rate_control=mode, bit_rate_kbps=800, frame_rate=25)
    encoder = VideoEncoder(codec, 176, 144, settings)
    size = sum(len(coded.data) for pixels in noise(75, 176, 144) for coded in encoder.send(pixels, None))
    assert 400 < size * 8 / 3 / 1000 < 1600


@pytest.mark.parametrize("codec", CODECS)
def test_variable_rate_stays_low_for_still_pictures(codec):
    still = next(moving(1, 320, 240))
    sizes = {}
    for mode in ("cbr", "vbr"):
        encoder = VideoEncoder(codec, 320, 240, EncoderSettings(rate_control=mode, bit_rate_kbps=20000))
        sizes[mode] = sum(len(coded.data) for _ in range(20) for coded in encoder.send(picture(still), None))
    assert sizes["vbr"] < sizes["cbr"]


@pytest.mark.parametrize("codec", CODECS)
def test_fixed_qp_is_separate_for_i_and_p(codec):
    def sizes(i, p):
        encoded = run(codec, EncoderSettings(rate_control="fixqp", qp=(i, p, 0)), 4)
        return len(encoded[0].data), sum(len(coded.data) for coded in encoded[1:])

    fine, coarse, both = sizes(20, 40), sizes(40, 40), sizes(20, 20)
    assert fine[0] > 1.3 * coarse[0] and abs(fine[0] - both[0]) < 0.02 * both[0]
    assert both[1] > fine[1]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("qp", [(0, 0, 0), (51, 51, 51), (0, 51, 0), (51, 0, 0)])
def test_extreme_qp_keeps_the_profile(codec, qp):
    stream, frames = probe(joined(run(codec, EncoderSettings(rate_control="fixqp", qp=qp), 3)), codec)
    assert stream["profile"] == "Main" and len(frames) == 3


@pytest.mark.parametrize("codec", CODECS)
def test_colours_and_aspect_are_written(codec):
    vui = Vui(
        aspect=pixel_aspect(14), full_range=True, primaries=1, transfer=1, matrix=1, overscan=False, video_format=1
    )
    stream, _ = probe(joined(run(codec, EncoderSettings(vui=vui), 2)), codec)
    assert stream["sample_aspect_ratio"] == "4:3" and stream["color_range"] == "pc"
    assert stream["color_primaries"] == stream["color_transfer"] == stream["color_space"] == "bt709"
    assert pixel_aspect(255, 7, 5) == (7, 5) and pixel_aspect(99) == (0, 0)


@pytest.mark.parametrize(("codec", "rows", "slices"), [("h264", 5, 3), ("hevc", 4, 2), ("h264", 1, 15)])
def test_slices_by_rows(codec, rows, slices):
    encoded = run(codec, EncoderSettings(slice_rows=rows), 3)
    assert [sum(annexb.is_slice(unit[0], codec) for unit in coded.units) for coded in encoded] == [slices] * 3
    assert psnr(codec, encoded, (320, 240)) > 30


@pytest.mark.parametrize("codec", CODECS)
def test_intra_refresh_has_one_key_picture(codec):
    encoded = run(codec, EncoderSettings(gop=8, intra_refresh=True), 24)
    _, frames = probe(joined(encoded), codec)
    assert [kind for kind, _ in frames] == ["I"] + ["P"] * 23
    assert psnr(codec, encoded, (320, 240)) > 30


@pytest.mark.parametrize("size", [(2, 2), (10, 6), (16, 16), (114, 114), (130, 2)])
def test_small_sizes(size):
    assert psnr("h264", run("h264", EncoderSettings(rate_control="fixqp", qp=(10, 10, 10)), 3, size), size) > 30
    if min(size) >= 16:
        assert len(plain("hevc", [joined(run("hevc", EncoderSettings(), 3, size))])) == 3


@pytest.mark.parametrize(
    ("codec", "size"),
    [("h264", (15, 16)), ("h264", (16, 0)), ("hevc", (14, 14)), ("h264", (8194, 16)), ("h264", (-2, 2))],
)
def test_sizes_that_cannot_be_are_refused(codec, size):
    with pytest.raises(NpuError) as caught:
        VideoEncoder(codec, *size, EncoderSettings())
    assert caught.value.code == codes.INVALID_PARAM


@pytest.mark.parametrize(
    "wrong",
    [
        {"gop": 0},
        {"gop": 65537},
        {"bit_rate_kbps": 1},
        {"frame_rate": 0},
        {"rate_control": "none"},
        {"profile": "high"},
        {"qp": (52, 0, 0)},
        {"ip_qp_delta": 31},
        {"stats_time": 0},
        {"min_qp": 30, "max_qp": 20},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(NpuError) as caught:
        VideoEncoder("hevc", 320, 240, EncoderSettings(**wrong))
    assert caught.value.code == codes.INVALID_PARAM


def test_pictures_of_another_size_or_format_are_refused_and_the_stream_goes_on():
    encoder = VideoEncoder("h264", 320, 240, EncoderSettings(gop=50))
    frames = list(moving(3, 320, 240))
    encoded = encoder.send(picture(frames[0]), 0)
    for wrong in (Pixels.empty(pixel_format(NV12), 318, 240), Pixels.empty(pixel_format(RGB_888), 320, 240)):
        with pytest.raises(NpuError):
            encoder.send(wrong, "x")
    encoded += encoder.send(picture(frames[1]), 1) + encoder.send(picture(frames[2]), 2)
    assert [(coded.token, coded.key) for coded in encoded] == [(0, True), (1, False), (2, False)]
    assert psnr("h264", encoded, (320, 240)) > 30


def test_nothing_is_printed(capfd):
    for codec in CODECS:
        run(codec, EncoderSettings(), 2)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_unknown_codec():
    with pytest.raises(NpuError):
        VideoEncoder("mpeg2", 320, 240, EncoderSettings())
