"""Cutting byte streams and reading parameter sets, against what the encoders say they wrote."""

import random

import pytest

from softnpu.base.errors import NpuError
from softnpu.media.codecs.video import annexb
from softnpu.media.codecs.video.sps import in_decode_order, parse
from tests.unit.media.video_streams import Bits, encode, plain, sps_of


def test_units_cover_all_data_with_either_start_code():
    data = b"\0\0\0\1\x67\1\2\0\0\1\x68\3\0\0\0\1\x65\x88\0\0\3\1"
    assert annexb.units(data) == [(7, 0, 7), (8, 7, 5), (5, 12, 10)]
    assert annexb.units(b"\0\0\1\x42\1\xff", "hevc") == [(33, 0, 6)]
    assert annexb.units(memoryview(b"\0\0\0\0\0\1\x09\x10")) == [(9, 0, 8)]


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\0\0\1", b"abcd", b"\0\0\2\x20\x65\x88", b"x\0\0\1\x65\x88"])
def test_what_does_not_begin_with_a_start_code_has_no_units(data):
    assert annexb.units(data) == []
    assert annexb.access_units(data, "h264") == []


def test_start_codes_without_a_unit_are_passed_over():
    assert [unit[0] for unit in annexb.units(b"\0\0\1\0\0\1\0\0\1\x67\1\0\0\1")] == [7]


@pytest.mark.parametrize(
    ("codec", "params"),
    [
        ("h264", "bframes=3:keyint=5:slices=3"),
        ("h264", "aud=1:bframes=2:keyint=4"),
        ("h264", "bframes=0:slice-max-size=300"),
        ("hevc", "bframes=3:keyint=5"),
        ("hevc", "aud=1:bframes=2:keyint=4:hrd=1:vbv-maxrate=900:vbv-bufsize=900"),
        ("hevc", "slices=2:bframes=0:hash=1"),
    ],
)
def test_a_file_is_cut_into_the_packets_of_the_encoder(codec, params):
    packets = encode(codec, 10, 640, 480, params)
    assert annexb.access_units(b"".join(packets), codec) == packets


def test_prefix_units_between_slices_do_not_cut():
    first, later, prefix = b"\0\0\1\x65\x88\x11", b"\0\0\1\x65\x44\x11", b"\0\0\1\x6e\x11"
    data = prefix + first + prefix + later + prefix + first
    assert annexb.access_units(data, "h264") == [
        prefix + first + prefix + later,
        prefix + first,
    ]


def test_parameter_sets_at_the_end_are_a_packet_of_their_own():
    picture, end, sps = b"\0\0\1\x65\x88", b"\0\0\1\x0a\x01", b"\0\0\1\x67\x01"
    assert annexb.access_units(picture + end + sps, "h264") == [picture + end, sps]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("size", [(320, 240), (322, 182), (1920, 1080), (66, 130)])
def test_size_with_cropping(codec, size):
    parameters = sps_of(encode(codec, 1, *size)[0], codec)
    assert parameters is not None
    assert (*parameters[:5],) == (*size, 8, False, 1)


@pytest.mark.parametrize(
    ("codec", "form", "depth", "chroma"),
    [
        ("h264", "yuv422p", 8, 2),
        ("h264", "yuv444p", 8, 3),
        ("h264", "yuv420p10le", 10, 1),
        ("h264", "gray", 8, 0),
        ("hevc", "yuv444p", 8, 3),
        ("hevc", "yuv420p10le", 10, 1),
    ],
)
def test_other_chroma_and_depth(codec, form, depth, chroma):
    parameters = sps_of(encode(codec, 1, 98, 70, form=form)[0], codec)
    assert (parameters.width, parameters.height, parameters.bit_depth, parameters.chroma) == (98, 70, depth, chroma)


def test_interlaced_and_the_reordering_behind_a_long_vui():
    params = "interlaced=1:bframes=3:b-pyramid=strict:nal-hrd=cbr:vbv-maxrate=500:vbv-bufsize=500:bitrate=500:sar=7/5:videoformat=pal:fullrange=on:colorprim=bt709:transfer=bt709:colormatrix=bt709:overscan=show"
    parameters = sps_of(encode("h264", 8, 320, 240, params)[0], "h264")
    assert (parameters.width, parameters.height, parameters.interlaced, parameters.reorder) == (320, 240, True, 2)
    assert sps_of(encode("h264", 8, 320, 240, "bframes=0")[0], "h264").reorder == 0
    assert sps_of(encode("hevc", 8, 320, 240, "bframes=4:b-pyramid=1")[0], "hevc").reorder == 2


def test_no_parameter_set_is_none():
    assert sps_of(encode("h264", 3, 320, 240)[1], "h264") is None
    assert sps_of(b"rubbish", "hevc") is None


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_damaged_parameter_sets_are_an_npu_error_or_a_size(codec):
    packet = encode(codec, 1, 320, 240)[0]
    unit = annexb.sps_unit(packet, annexb.units(packet, codec), codec)
    generator, refused = random.Random(5), 0
    damaged = [unit[:length] for length in range(2, len(unit))]
    for _ in range(2000):
        other = bytearray(unit)
        for _ in range(generator.randint(1, 8)):
            other[generator.randrange(1, len(other))] = generator.randrange(256)
        damaged.append(bytes(other))
    for data in [*damaged, unit[:2] + bytes(5000), unit[:2] + b"\xff" * 5000]:
        try:
            parameters = parse(data, codec)
            assert 0 < parameters.width <= 1 << 15 and 0 < parameters.height <= 1 << 15
        except NpuError:
            refused += 1
    assert refused > 20


def test_hevc_parameter_set_without_reordering_decodes_the_same():
    packets = encode("hevc", 10, 320, 240, "bframes=3:keyint=30:open-gop=0")
    unit = annexb.sps_unit(packets[0], annexb.units(packets[0], "hevc"), "hevc")
    other = in_decode_order(unit)
    assert parse(unit, "hevc").reorder == 2
    assert parse(other, "hevc") == parse(unit, "hevc")._replace(reorder=0)
    changed = [packets[0].replace(unit, other), *packets[1:]]
    wanted, got = plain("hevc", packets), plain("hevc", changed)
    assert sorted(array.tobytes() for array in wanted) == sorted(array.tobytes() for array in got)


def test_escapes_survive_the_rewriting():
    text = Bits().u(0, 4).u(0, 3).u(1, 1).u(1, 8).u(0, 32).u(0, 48).u(93, 8)
    text.ue(0, 1, 64, 64).u(0, 1).ue(0, 0, 4).u(1, 1).ue(4, 2, 0).u(0, 100).align("1")
    unit = text.unit(0x42)[5:]
    whole = b"\x42\x01" + unit
    assert b"\0\0\3" in whole
    again = in_decode_order(whole)
    assert parse(again, "hevc") == parse(whole, "hevc")._replace(reorder=0)
    assert b"\0\0\1" not in again and b"\0\0\0" not in again
