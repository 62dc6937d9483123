"""Damaged files through acl.media, in a process of its own: `media_damage.py KIND COUNT SEED`.

Every call must answer with a code, every packet must come back, and a good file after each damaged one must decode as before.
Prints how many damaged files were refused and how many gave a picture.
"""

from __future__ import annotations

import io
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import av
import numpy as np

import acl

NV12, RGB = 1, 12
SIDE = 96


def ok(answer: Any) -> Any:
    """The value of an answer whose code is 0."""
    value, ret = answer if isinstance(answer, tuple) else (None, answer)
    assert ret == 0, (ret, acl.get_recent_err_msg())
    return value


def damage(data: bytes, source: random.Random) -> bytes:
    """Bits turned, bytes overwritten, parts cut out, doubled or swapped, the end cut off."""
    content = bytearray(data)
    kind = source.randrange(6)
    if kind == 0:
        return bytes(content[: source.randrange(len(content))])
    for _ in range(source.choice((1, 1, 2, 4, 16))):
        at = source.randrange(len(content))
        size = source.randrange(1, 40)
        if kind == 1:
            content[at] ^= 1 << source.randrange(8)
        elif kind == 2:
            content[at] = source.choice((0, 0xFF, 0xD9, source.randrange(256)))
        elif kind == 3:
            del content[at : at + size]
        elif kind == 4:
            content[at:at] = content[at : at + size]
        else:
            content[at : at + size] = source.randbytes(size)
        if len(content) < 2:
            return bytes(content) or b"\0"
    return bytes(content)


def photograph(seed: int = 1) -> np.ndarray[Any, Any]:
    """A small picture with detail."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    waves = np.stack([np.sin(x / 5 + y / 9), np.cos(x / 7), np.sin(y / 4)], -1) * 90 + 128
    return np.clip(waves + np.random.default_rng(seed).normal(0, 12, waves.shape), 0, 255).astype(np.uint8)


class Pictures:
    """JPEG or PNG through a picture channel."""

    def __init__(self, kind: str) -> None:
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(photograph()).save(file, kind.upper())
        self.good, self.form = file.getvalue(), NV12 if kind == "jpeg" else RGB
        self.call = acl.media.dvpp_jpeg_decode_async if kind == "jpeg" else acl.media.dvpp_png_decode_async
        self.info = acl.media.dvpp_jpeg_get_image_info if kind == "jpeg" else acl.media.dvpp_png_get_image_info
        self.stream = ok(acl.rt.create_stream())
        self.channel = acl.media.dvpp_create_channel_desc()
        ok(acl.media.dvpp_create_channel(self.channel))
        self.room = 4 << 20
        self.input, self.output = ok(acl.media.dvpp_malloc(self.room)), ok(acl.media.dvpp_malloc(self.room))
        self.expected = self.decode(self.good)
        assert self.expected

    def decode(self, data: bytes) -> bytes:
        """The pixels, or nothing when the file was refused."""
        ok(acl.rt.memcpy(self.input, self.room, acl.util.bytes_to_ptr(data), len(data), 1))
        self.info(acl.util.bytes_to_ptr(data), len(data))
        desc = acl.media.dvpp_create_pic_desc()
        for name, value in {"data": self.output, "size": self.room, "format": self.form}.items():
            ok(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(desc, value))
        sent = self.call(self.channel, self.input, len(data), desc, self.stream)
        done = acl.rt.synchronize_stream(self.stream)
        code = acl.media.dvpp_get_pic_desc_ret_code(desc)
        assert (sent or done) in (0, 100000, 507018), (sent, done)
        assert (code == 0) == (done == 0) or sent, (sent, done, code)
        stride, width, height = (
            getattr(acl.media, f"dvpp_get_pic_desc_{name}")(desc) for name in ("width_stride", "width", "height")
        )
        ok(acl.media.dvpp_destroy_pic_desc(desc))
        if sent or done:
            return b""
        rows = np.frombuffer(acl.util.ptr_to_bytes(self.output, stride * height), np.uint8).reshape(height, stride)
        return rows[:, : width * (3 if self.form == RGB else 1)].tobytes()

    def run(self, count: int, source: random.Random) -> tuple[int, int]:
        refused = 0
        for _ in range(count):
            refused += not self.decode(damage(self.good, source))
            assert self.decode(self.good) == self.expected, "the file after a damaged one is decoded otherwise"
        return refused, count - refused


class Video:
    """H.264 or H.265 through a video channel."""

    def __init__(self, kind: str) -> None:
        self.entype = 3 if kind == "h264" else 0
        encoder = av.CodecContext.create("libx264" if kind == "h264" else "libx265", "w")
        encoder.width = encoder.height = 128
        encoder.pix_fmt, encoder.framerate = "yuv420p", 25  # type: ignore[assignment]
        encoder.options = {"preset": "ultrafast", "x265-params": "log-level=none:keyint=4:bframes=1", "x264-params": "keyint=4:bframes=1"}  # fmt: skip
        packets = []
        for number in range(8):
            picture = np.roll(np.kron(photograph(), np.ones((2, 2, 1), np.uint8))[:128, :128], 3 * number, 1)
            packets += encoder.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24").reformat(format="yuv420p"))  # fmt: skip
        self.good = [bytes(packet) for packet in [*packets, *encoder.encode(None)]]
        self.running, self.context = True, ok(acl.rt.get_context())
        self.answers: list[tuple[int, int]] = []
        self.thread = ok(acl.util.start_thread(self._loop, [50]))
        self.desc = acl.media.vdec_create_channel_desc()
        for name, value in {"channel_id": 1, "thread_id": self.thread, "callback": self._callback, "entype": self.entype}.items():  # fmt: skip
            ok(getattr(acl.media, f"vdec_set_channel_desc_{name}")(self.desc, value))
        ok(acl.media.vdec_create_channel(self.desc))
        self.config = acl.media.vdec_create_frame_config()
        self.room = 4 << 20
        self.input = ok(acl.media.dvpp_malloc(self.room))
        self.size = 128 * 128 * 3 // 2
        self.outputs = [ok(acl.media.dvpp_malloc(self.size)) for _ in range(16)]
        self.expected = self.decode(self.good)
        assert len(self.expected) == len(self.good)

    def _loop(self, args: list[int]) -> None:
        acl.rt.set_context(self.context)
        while self.running:
            acl.rt.process_report(args[0])

    def _callback(self, stream: int, picture: int, number: int) -> None:
        self.answers.append((number, acl.media.dvpp_get_pic_desc_ret_code(picture)))
        ok(acl.media.dvpp_destroy_stream_desc(stream))
        ok(acl.media.dvpp_destroy_pic_desc(picture))

    def decode(self, packets: list[bytes]) -> dict[int, bytes]:
        """The pictures by the number of their packet; every packet is answered once."""
        self.answers.clear()
        sent = 0
        for number, data in enumerate(packets):
            ok(acl.rt.memcpy(self.input, self.room, acl.util.bytes_to_ptr(data), len(data), 1))
            stream, picture = acl.media.dvpp_create_stream_desc(), acl.media.dvpp_create_pic_desc()
            for name, value in {"data": self.input, "size": len(data), "format": self.entype}.items():
                ok(getattr(acl.media, f"dvpp_set_stream_desc_{name}")(stream, value))
            for name, value in {"data": self.outputs[number], "size": self.size, "format": NV12}.items():
                ok(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(picture, value))
            ok(acl.media.vdec_send_frame(self.desc, stream, picture, self.config, number))
            sent += 1
        last = acl.media.dvpp_create_stream_desc()
        ok(acl.media.dvpp_set_stream_desc_eos(last, 1))
        ok(acl.media.vdec_send_frame(self.desc, last, 0, self.config, None))
        ok(acl.media.dvpp_destroy_stream_desc(last))
        assert sorted(number for number, _ in self.answers) == list(range(sent)), self.answers
        return {n: acl.util.ptr_to_bytes(self.outputs[n], self.size) for n, code in self.answers if code == 0}

    def run(self, count: int, source: random.Random) -> tuple[int, int]:
        refused = 0
        for _ in range(count):
            packets = list(self.good)
            for _ in range(source.choice((1, 1, 2, 4))):
                at = source.randrange(len(packets))
                packets[at] = damage(packets[at], source) or b"\0"
            refused += len(packets) - len(self.decode(packets))
            assert self.decode(self.good) == self.expected, "the stream after a damaged one is decoded otherwise"
        self.running = False
        ok(acl.media.vdec_destroy_channel(self.desc))
        ok(acl.util.stop_thread(self.thread))
        return refused, count * len(self.good) - refused


def resident() -> int:
    """MiB that the process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 >> 20


def main() -> None:
    kind, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.rt.create_context(0))
    make: Callable[[str], Any] = Pictures if kind in ("jpeg", "png") else Video
    tester, source = make(kind), random.Random(seed)
    first = max(1, count // 5)
    if kind in ("jpeg", "png"):
        tester.run(first, source)
        before = resident()
        refused, taken = tester.run(count - first, source)
        assert resident() < before + 40, f"memory grew from {before} to {resident()} MiB"
    else:
        refused, taken = tester.run(count, source)
    assert threading.active_count() < 12, threading.enumerate()
    print(f"refused {refused}, decoded {taken}")


if __name__ == "__main__":
    main()
