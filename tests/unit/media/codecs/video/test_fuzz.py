"""Damaged streams: nothing is raised, every packet is answered once, and a good stream decodes afterwards."""

import random

import numpy as np
import pytest

from softnpu.media.codecs.video import annexb
from softnpu.media.codecs.video.decoder import MAX_WAITING, VideoDecoder
from tests.unit.media.video_streams import encode, plain, stacked

KINDS = {
    "h264": ["bframes=3:b-adapt=0:keyint=6", "bframes=0:slices=3:keyint=6", "interlaced=1:bframes=2:keyint=6"],
    "hevc": ["bframes=3:b-adapt=0:keyint=6", "bframes=0:keyint=6:aud=1"],
}


def streams(codec):
    return [encode(codec, 10, 96, 80, params) for params in KINDS[codec]]


def damage(packets, generator):
    """One or several of: bytes changed, cut off, left out, doubled, swapped, joined, start codes put in, zeros."""
    result = [bytearray(packet) for packet in packets]
    for _ in range(generator.randint(1, 6)):
        at = generator.randrange(len(result))
        data = result[at]
        how = generator.randrange(9)
        where = generator.randrange(len(data)) if data else 0
        if how <= 1 and data:
            for _ in range(generator.randint(1, 12)):
                data[generator.randrange(len(data))] = generator.randrange(256)
        elif how == 2 and data:  # where the headers are
            data[generator.randrange(min(len(data), 60))] ^= 1 << generator.randrange(8)
        elif how == 3:
            del data[where:]
        elif how == 4:
            del data[where : where + generator.randint(1, 50)]
        elif how == 5:
            data[where:where] = b"\0\0\1" + bytes([generator.randrange(256)])
        elif how == 6:
            result[at : at + 2] = result[at : at + 2][::-1]
        elif how == 7 and at + 1 < len(result):
            result[at] += result.pop(at + 1)
        elif how == 8:
            data[where : where + 30] = bytes(30)
    return [bytes(data) for data in result]


def check(codec, rounds, seed):
    generator = random.Random(seed)
    sources = streams(codec)
    good = encode(codec, 6, 128, 96, "bframes=2:b-adapt=0", seed=9)
    wanted = plain(codec, good)
    decoders = [VideoDecoder(codec), VideoDecoder(codec, immediate=True)]
    for round_ in range(rounds):
        decoder = decoders[round_ % 2]
        packets = damage(generator.choice(sources), generator)
        answered, waiting = [], 0
        for index, packet in enumerate(packets):
            got = [answer.token for answer in decoder.send(packet, index)]
            answered += got
            waiting += 1 - len(got)
            assert waiting <= MAX_WAITING
        if generator.random() < 0.7:
            answered += [answer.token for answer in decoder.flush()]
            assert sorted(answered) == list(range(len(packets))), (seed, round_)
        else:
            decoder.flush()
        if round_ % 10 < 2:
            answers = [a for n, packet in enumerate(good) for a in decoder.send(packet, n)] + decoder.flush()
            assert sorted(answer.token for answer in answers) == list(range(6))
            got = sorted(stacked(answer.pixels).tobytes() for answer in answers if answer.pixels)
            assert got == sorted(array.tobytes() for array in wanted), (seed, round_)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_damaged_streams(codec, capfd):
    check(codec, 100, 1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_many_damaged_streams(codec):
    check(codec, 2500, 2)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_pure_noise(codec):
    generator = np.random.default_rng(4)
    decoder = VideoDecoder(codec)
    for index in range(200):
        noise = generator.integers(0, 256, int(generator.integers(0, 300)), dtype=np.uint8).tobytes()
        data = b"\0\0\0\1" + noise if index % 3 else noise
        assert len(annexb.access_units(data, codec)) <= len(data)
        decoder.send(data, index)
    decoder.flush()
    good = encode(codec, 3, 128, 96, "bframes=0")
    assert not any(answer.error for packet in good for answer in decoder.send(packet, None))
