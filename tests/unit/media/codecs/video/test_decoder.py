"""The decoder against FFmpeg on the same file, and what it answers for streams that are not as they should be."""

import resource

import numpy as np
import pytest

from softnpu.base.errors import NpuError
from softnpu.media.codecs.video import annexb
from softnpu.media.codecs.video.decoder import VideoDecoder
from softnpu.media.codecs.video.deliver import deliver
from softnpu.media.codecs.video.sps import parse
from softnpu.media.pixels.formats import NV12, NV21, pixel_format
from softnpu.media.pixels.picture import Pixels
from tests.unit.media.video_streams import encode, fields, plain, sps_of, stacked


def run(codec, packets, **options):
    """All answers, by send; the last list is that of flush."""
    decoder = VideoDecoder(codec, **options)
    answers = [decoder.send(packet, index) for index, packet in enumerate(packets)]
    return [*answers, decoder.flush()]


def kinds(answers):
    """(token, I P B, - for no picture, or ! for an error) for each answer."""
    return [
        (answer.token, "-" if answer.no_picture else "!" if answer.error else "IPB"[answer.frame_type])
        for answer in answers
    ]


def flat(lists):
    return [answer for answers in lists for answer in answers]


STREAMS = [
    ("h264", "bframes=3:b-adapt=0:keyint=8:min-keyint=8", "yuv420p", (320, 240)),
    ("h264", "bframes=0:slices=4", "yuv420p", (320, 240)),
    ("h264", "bframes=2:ref=5:keyint=300:no-deblock=1:weightp=2:cabac=1:8x8dct=1", "yuv420p", (320, 240)),
    ("h264", "bframes=5:b-adapt=0:b-pyramid=normal:ref=4:open-gop=1:keyint=8:min-keyint=4", "yuv420p", (322, 182)),
    ("h264", "interlaced=1:bframes=2", "yuv420p", (320, 240)),
    ("h264", "bframes=2", "yuv420p10le", (130, 98)),
    ("h264", "bframes=2", "gray", (130, 98)),
    ("h264", "fullrange=on", "yuvj420p", (640, 480)),
    ("hevc", "bframes=3:b-adapt=0:keyint=8:min-keyint=8", "yuv420p", (320, 240)),
    ("hevc", "bframes=4:b-adapt=0:b-pyramid=1:keyint=6:min-keyint=6:open-gop=1", "yuv420p", (322, 182)),
    ("hevc", "bframes=0:slices=2", "yuv420p", (640, 480)),
    ("hevc", "bframes=2", "yuv420p10le", (322, 182)),
]


@pytest.mark.parametrize(("codec", "params", "form", "size"), STREAMS)
@pytest.mark.parametrize("immediate", [False, True])
def test_pictures_are_those_of_ffmpeg(codec, params, form, size, immediate):
    packets = encode(codec, 20, *size, params, form)
    answers = flat(run(codec, packets, immediate=immediate))
    assert sorted(answer.token for answer in answers) == list(range(20))
    assert all(answer.error is None and not answer.no_picture for answer in answers)
    got = [stacked(answer.pixels) for answer in answers]
    wanted = plain(codec, packets)
    if immediate:
        assert [answer.token for answer in answers] == list(range(20))
        assert sorted(array.tobytes() for array in got) == sorted(array.tobytes() for array in wanted)
    else:
        assert all(np.array_equal(plane, other) for plane, other in zip(got, wanted, strict=True))


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("immediate", [False, True])
def test_without_b_pictures_each_comes_at_once(codec, immediate):
    packets = encode(codec, 8, params="bframes=0:keyint=4:min-keyint=4:open-gop=0")
    answers = run(codec, packets, immediate=immediate)
    assert [kinds(answer) for answer in answers] == [[(n, "PI"[n % 4 == 0])] for n in range(8)] + [[]]


def test_hevc_with_b_pictures_comes_at_once_when_asked():
    answers = run("hevc", encode("hevc", 9, params="bframes=3:b-adapt=0:keyint=30"), immediate=True)
    assert [len(answer) for answer in answers] == [1] * 9 + [0]
    assert {"I", "P", "B"} == {kind for _, kind in kinds(flat(answers))}


def test_order_is_that_of_display():
    tokens = [
        token
        for token, _ in kinds(flat(run("h264", encode("h264", 9, params="bframes=3:b-adapt=0:b-pyramid=none:ref=1"))))
    ]
    assert tokens == [0, 2, 3, 4, 1, 6, 7, 8, 5]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_one_packet_ten_times_gives_ten_pictures(codec):
    (packet,) = encode(codec, 1, 640, 480)
    answers = flat(run(codec, [packet] * 10))
    assert kinds(answers) == [(n, "I") for n in range(10)]
    (wanted,) = plain(codec, [packet])
    assert all(np.array_equal(stacked(answer.pixels), wanted) for answer in answers)


def test_bframes_in_a_stream_that_does_not_declare_them():
    packets = encode("h264", 16, params="bframes=3:b-adapt=0:keyint=8:min-keyint=8")
    unit = annexb.sps_unit(packets[0], annexb.units(packets[0]), "h264")
    wanted, facts = plain("h264", packets), parse(unit, "h264")
    short = _without_vui(unit, facts)
    changed = [packet.replace(unit, short) for packet in packets]
    answers = flat(run("h264", changed))
    assert all(np.array_equal(stacked(answer.pixels), other) for answer, other in zip(answers, wanted, strict=True))


def _without_vui(unit, facts):
    """End the parameter set where its usability information begins."""
    text = format(int.from_bytes(unit, "big"), f"0{len(unit) * 8}b")
    for at in range(60, len(text)):
        if text[at] != "1":
            continue
        cut = text[:at] + "01"
        cut += "0" * (-len(cut) % 8)
        candidate = int(cut, 2).to_bytes(len(cut) // 8, "big")
        try:
            if parse(candidate, "h264") == facts._replace(reorder=None):
                return candidate
        except NpuError:
            continue
    raise AssertionError("no end found")


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_parameter_sets_in_packets_of_their_own(codec):
    packets = encode(codec, 6, params="bframes=0:keyint=3:min-keyint=3")
    split = []
    for packet in packets:
        nal_units = annexb.units(packet, codec)
        split += [packet[at : at + size] for kind, at, size in nal_units if not annexb.is_slice(kind, codec)]
        split.append(b"".join(packet[at : at + size] for kind, at, size in nal_units if annexb.is_slice(kind, codec)))
    answers = run(codec, split)
    assert all(len(answer) == 1 for answer in answers[:-1]), "each answer comes at once"
    pictures = [answer for answer in flat(answers) if not answer.no_picture]
    assert [kind for _, kind in kinds(pictures)] == list("IPPIPP")
    for answer, wanted in zip(pictures, plain(codec, packets), strict=True):
        assert np.array_equal(stacked(answer.pixels), wanted)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_several_access_units_in_a_packet_give_the_first_picture(codec):
    packets = encode(codec, 6, params="bframes=0")
    answers = flat(run(codec, [packets[0] + packets[1], packets[2], packets[3] + packets[4], packets[5]]))
    assert kinds(answers) == [(0, "I"), (1, "P"), (2, "P"), (3, "P")]
    wanted = plain(codec, packets)
    for answer, index in zip(answers, (0, 2, 3, 5), strict=True):
        assert np.array_equal(stacked(answer.pixels), wanted[index])


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_a_packet_that_begins_within_a_picture_is_an_error(codec):
    packets = encode(codec, 2, 640, 480, params="bframes=0:slices=2")
    cut = annexb.units(packets[0], codec)[-1][1]
    answers = run(codec, [packets[0][:cut], packets[0][cut:], packets[1]])
    assert [kind for _, kind in kinds(answers[1])] == ["!"]
    assert "whole access unit" in answers[1][0].error
    assert len(flat(answers)) == 3


def test_fields_come_as_one_picture_with_the_first_and_none_with_the_second():
    answers = run("h264", fields([10, 20, 30, 40, 50, 60]))
    assert [len(answer) for answer in answers] == [0, 2, 0, 2, 0, 2, 0]
    assert kinds(flat(answers)) == [(0, "I"), (1, "-"), (2, "I"), (3, "-"), (4, "I"), (5, "-")]
    pictures = {answer.token: answer.pixels for answer in flat(answers) if answer.pixels}
    for token, values in ((0, (10, 20)), (2, (30, 40)), (4, (50, 60))):
        for plane in pictures[token].planes:
            assert (plane[0::2] == values[0]).all() and (plane[1::2] == values[1]).all()


def test_both_fields_in_one_packet_are_one_picture():
    packets = fields([10, 20, 30, 40])
    answers = flat(run("h264", [packets[0] + packets[1], packets[2] + packets[3]]))
    assert kinds(answers) == [(0, "I"), (1, "I")]
    assert answers[1].pixels.planes[0][:2, 0].tolist() == [30, 40]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_another_size_in_the_middle(codec):
    first = encode(codec, 7, 320, 240, "bframes=3:b-adapt=0")
    second = encode(codec, 7, 178, 146, "bframes=3:b-adapt=0", seed=3)
    answers = flat(run(codec, first + second + first))
    wanted = plain(codec, first) + plain(codec, second) + plain(codec, first)
    assert sorted(answer.token for answer in answers) == list(range(21))
    assert all(np.array_equal(stacked(answer.pixels), other) for answer, other in zip(answers, wanted, strict=True))


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("data", [b"", b"\0\0\2\x33abc", b"\x65" * 50])
def test_what_is_not_annex_b_is_an_error_at_once(codec, data):
    decoder = VideoDecoder(codec)
    (answer,) = decoder.send(data, "x")
    assert answer.token == "x" and answer.pixels is None and ("empty" in answer.error or "Annex B" in answer.error)
    assert decoder.flush() == []


@pytest.mark.parametrize(("codec", "other"), [("h264", "hevc"), ("hevc", "h264")])
def test_the_wrong_codec_is_an_error_and_the_right_one_then_decodes(codec, other):
    decoder = VideoDecoder(codec)
    wrong = flat([decoder.send(packet, n) for n, packet in enumerate(encode(other, 4))]) + decoder.flush()
    assert sorted(answer.token for answer in wrong) == [0, 1, 2, 3]
    assert all(answer.pixels is None for answer in wrong) and wrong[0].error
    right = encode(codec, 4, params="bframes=0")
    good = flat([decoder.send(packet, n) for n, packet in enumerate(right)]) + decoder.flush()
    assert kinds(good) == [(0, "I"), (1, "P"), (2, "P"), (3, "P")]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_a_start_without_the_key_picture_is_errors_until_the_next(codec):
    packets = encode(codec, 8, params="bframes=0:keyint=4:min-keyint=4:open-gop=0")
    answers = run(codec, packets[2:])
    assert [kinds(answer) for answer in answers] == [
        [(0, "!")],
        [(1, "!")],
        [(2, "I")],
        [(3, "P")],
        [(4, "P")],
        [(5, "P")],
        [],
    ]
    assert "parameter set" in answers[0][0].error


def test_leading_pictures_of_an_open_gop_are_no_pictures():
    packets = encode("hevc", 16, params="bframes=3:b-adapt=0:keyint=8:min-keyint=8:open-gop=1")
    start = next(n for n, packet in enumerate(packets) if n and sps_of(packet, "hevc"))
    answers = run("hevc", packets[start:])
    assert [kind for _, kind in kinds(answers[1])] == ["-"]
    assert not any(answer.error for answer in flat(answers))
    assert len(flat(answers)) == len(packets) - start


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("which", [0, 2])
def test_half_a_packet_is_an_error_and_the_next_key_picture_decodes(codec, which):
    packets = encode(codec, 12, params="bframes=0:keyint=6:min-keyint=6:open-gop=0")
    damaged = list(packets)
    damaged[which] = packets[which][: len(packets[which]) * 2 // 3]
    answers = flat(run(codec, damaged))
    assert [answer.token for answer in answers] == list(range(12))
    assert answers[which].error and answers[which].pixels is None
    wanted = plain(codec, packets)
    for index in (*range(which), *range(6, 12)):
        assert np.array_equal(stacked(answers[index].pixels), wanted[index])


def test_hevc_pictures_with_a_missing_reference_are_errors():
    packets = encode("hevc", 10, params="bframes=0:keyint=5:min-keyint=5:open-gop=0:ref=1")
    answers = flat(run("hevc", packets[:2] + packets[3:]))
    assert kinds(answers)[:5] == [(0, "I"), (1, "P"), (2, "!"), (3, "!"), (4, "I")]


def test_h264_picture_after_a_missing_one_is_an_error():
    packets = encode("h264", 40, params="bframes=0:keyint=40")
    answers = flat(run("h264", packets[:2] + packets[3:20] + packets[22:]))
    assert [token for token, kind in kinds(answers) if kind == "!"] == [2, 19]
    assert "did not come" in answers[2].error


def test_other_chroma_is_an_error():
    answers = flat(run("h264", encode("h264", 3, form="yuv422p")))
    assert len(answers) == 3 and all("yuv422p" in answer.error for answer in answers)


def test_after_flush_a_stream_can_follow():
    packets = encode("h264", 6, params="bframes=3:b-adapt=0")
    wanted = plain("h264", packets)
    decoder = VideoDecoder("h264")
    assert decoder.flush() == []
    for _ in range(3):
        answers = flat([decoder.send(packet, n) for n, packet in enumerate(packets)]) + decoder.flush()
        assert all(np.array_equal(stacked(a.pixels), other) for a, other in zip(answers, wanted, strict=True))
    decoder.close()
    answers = flat([decoder.send(packet, n) for n, packet in enumerate(packets)]) + decoder.flush()
    assert len(answers) == 6 and not any(answer.error for answer in answers)


def test_pictures_outlive_the_decoder():
    packets = encode("h264", 30, params="bframes=0")
    decoder = VideoDecoder("h264")
    kept = flat([decoder.send(packet, n) for n, packet in enumerate(packets)])
    decoder.close()
    del decoder
    wanted = plain("h264", packets)
    assert all(np.array_equal(stacked(a.pixels), other) for a, other in zip(kept, wanted, strict=True))


def test_memory_stays_flat():
    packets = encode("h264", 20, 640, 480, "bframes=2:keyint=10")
    decoder = VideoDecoder("h264")

    def some(rounds):
        for _ in range(rounds):
            for packet in packets:
                decoder.send(packet, None)
            decoder.send(packets[3][:40], None)
            decoder.send(b"\0\0\1\x67", None)

    some(5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(30)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_unknown_codec():
    with pytest.raises(NpuError):
        VideoDecoder("mpeg2")


@pytest.mark.parametrize("form", [NV12, NV21])
def test_deliver_into_strided_memory(form):
    answer = flat(run("h264", encode("h264", 1, 322, 182)))[0]
    memory = np.zeros((182 + 91, 384), np.uint8)
    chroma = memory[182:, :322].reshape(91, -1)
    views = [memory[:182, :322], np.lib.stride_tricks.as_strided(memory[182:], (91, 161, 2), (384, 2, 1))]
    deliver(answer.pixels, Pixels(pixel_format(form), views, 322, 182))
    luma, u, v = answer.pixels.planes
    assert np.array_equal(memory[:182, :322], luma)
    assert np.array_equal(memory[182:, 0:322:2], u if form == NV12 else v)
    assert np.array_equal(memory[182:, 1:322:2], v if form == NV12 else u)
    assert not memory[:, 322:].any() and chroma.any()


def test_deliver_scales():
    import cv2

    answer = flat(run("h264", encode("h264", 1, 320, 240)))[0]
    out = Pixels.empty(pixel_format(NV12), 160, 90)
    deliver(answer.pixels, out)
    wanted = cv2.resize(answer.pixels.planes[0], (160, 90), interpolation=cv2.INTER_LINEAR)
    assert np.abs(out.planes[0].astype(int) - wanted).max() <= 1
    for index in (0, 1):
        wanted = cv2.resize(answer.pixels.planes[1 + index], (80, 45), interpolation=cv2.INTER_LINEAR)
        assert np.abs(out.planes[1][..., index].astype(int) - wanted).max() <= 1
