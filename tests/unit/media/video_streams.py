"""Streams for the video tests, made with PyAV directly: moving pictures through x264 and x265, and a hand-written field stream."""

import io
import json
import shutil
import subprocess
from fractions import Fraction

import av
import numpy as np
import pytest

from softnpu.media.codecs.video import annexb
from softnpu.media.codecs.video.sps import parse

LIBRARY = {"h264": "libx264", "hevc": "libx265"}


def moving(count, width, height, seed=0):
    """Frames of blocks that move, in colours that change."""
    generator = np.random.default_rng(seed)
    base = generator.integers(0, 256, (height // 8 + 40, width // 8 + 40), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    for index in range(count):
        frame = av.VideoFrame(width, height, "yuv420p")
        for number, plane in enumerate(frame.planes):
            view = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
            wave = 128 + 40 * np.sin(index / 5 + number + np.arange(plane.width) / 20)
            view[...] = base[3 * index % 300 :, 5 * index % 300 :][:height, :width] if number == 0 else wave
        frame.pts = index
        yield frame


def encode(codec, count=12, width=320, height=240, params="", form="yuv420p", seed=0):
    """The packets of a stream in decode order, one access unit each."""
    context = av.CodecContext.create(LIBRARY[codec], "w")
    context.width, context.height, context.pix_fmt = width, height, form
    context.time_base, context.framerate, context.thread_count = Fraction(1, 25), 25, 1
    quiet = ":log-level=none" if codec == "hevc" else ""
    name = "x265-params" if codec == "hevc" else "x264-params"
    context.options = {"preset": "ultrafast", name: f"scenecut=0:repeat-headers=1{quiet}:{params}".rstrip(":")}
    packets = []
    for frame in moving(count, width, height, seed):
        packets += context.encode(frame.reformat(format=form) if form != "yuv420p" else frame)
    return [bytes(packet) for packet in packets + context.encode(None)]


def plain(codec, packets):
    """What FFmpeg makes of the file, as arrays in display order."""
    with av.open(io.BytesIO(b"".join(packets)), format=codec) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


def stacked(pixels):
    """`Pixels` as the array that PyAV gives for the same format."""
    if pixels.format.name == "YUV_SEMI_PLANNER_420_10BIT":
        luma, chroma = pixels.planes
        flat = np.concatenate([luma.ravel(), chroma[..., 0].ravel(), chroma[..., 1].ravel()]) >> 6
    else:
        flat = np.concatenate([plane.ravel() for plane in pixels.planes])
    return flat.reshape(-1, pixels.width)


def probe(data, codec):
    """Facts of ffprobe: the stream, and for each frame its type and whether it is a key frame."""
    if shutil.which("ffprobe") is None:
        pytest.skip("ffprobe is not installed")
    entries = "stream=profile,width,height,pix_fmt,sample_aspect_ratio,color_range,color_space,color_transfer,color_primaries,r_frame_rate:frame=key_frame,pict_type"
    command = ["ffprobe", "-v", "error", "-f", codec, "-show_entries", entries, "-of", "json", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    report = json.loads(done.stdout)
    return report["streams"][0], [(frame["pict_type"], bool(frame["key_frame"])) for frame in report["frames"]]


class Bits:
    """Writes a bit stream by hand."""

    def __init__(self):
        self.text = ""

    def u(self, value, count):
        self.text += format(value, f"0{count}b")
        return self

    def ue(self, *values):
        for value in values:
            digits = format(value + 1, "b")
            self.text += "0" * (len(digits) - 1) + digits
        return self

    def align(self, stop=""):
        self.text += stop
        self.text += "0" * (-len(self.text) % 8)
        return self

    def unit(self, header):
        """As a NAL unit, with the bytes that keep start codes out."""
        result, zeros = bytearray(), 0
        for value in int(self.text, 2).to_bytes(len(self.text) // 8, "big"):
            if zeros >= 2 and value <= 3:
                result.append(3)
                zeros = 0
            result.append(value)
            zeros = zeros + 1 if value == 0 else 0
        return b"\0\0\0\1" + bytes([header]) + bytes(result)


def fields(values):
    """H.264 field pictures of one grey value each, as uncoded blocks: 64x64 in pairs of packets, top field first."""
    wide, high = 4, 2
    sps = Bits().u(77, 8).u(0, 8).u(30, 8).ue(0, 0, 2, 1).u(0, 1).ue(wide - 1, high - 1).u(0b00100, 5).align("1")
    pps = Bits().ue(0, 0).u(0, 2).ue(0, 0, 0).u(0, 3).ue(0, 0, 0).u(0b100, 3).align("1")
    packets = []
    for index, value in enumerate(values):
        first = index == 0
        bits = Bits().ue(0, 7, 0).u(index // 2 % 16, 4).u(1, 1).u(index % 2, 1)
        if first:
            bits.ue(0).u(0, 2)
        else:
            bits.u(0, 1)
        bits.ue(0, 1)
        for _ in range(wide * high):
            bits.ue(25).align()
            bits.text += format(value, "08b") * 384
        packets.append(bits.align("1").unit(0x65 if first else 0x61))
    packets[0] = sps.unit(0x67) + pps.unit(0x68) + packets[0]
    return packets


def sps_of(data, codec):
    """What the sequence parameter set in the data says; None where there is none."""
    unit = annexb.sps_unit(data, annexb.units(data, codec), codec)
    return None if unit is None else parse(unit, codec)
