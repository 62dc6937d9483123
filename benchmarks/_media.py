"""What the media benchmark measures with: pictures, files and streams made here, and a thin client of acl.media."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np

import acl

NV12, RGB888 = 1, 12
Array = np.ndarray[Any, Any]


def photograph(width: int, height: int, seed: int = 0) -> Array:
    """An RGB picture with the detail of a photograph."""
    import cv2

    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    waves = [128 + 90 * np.sin(x / 37 + y / 51), 128 + 90 * np.cos(x / 53 - y / 29), 128 + 80 * np.sin(x * y / 9000)]
    grain = cv2.GaussianBlur(random.normal(0, 60, (height, width, 3)), (0, 0), 2) + random.normal(
        0, 4, (height, width, 3)
    )
    return np.clip(np.stack(waves, -1) + grain, 0, 255).astype(np.uint8)


def jpeg(width: int, height: int) -> bytes:
    """A photograph as a JPEG file, quality 90, 4:2:0."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(photograph(width, height)).save(file, "JPEG", quality=90, subsampling=2)
    return file.getvalue()


def stream(codec: str, width: int, height: int, count: int) -> list[bytes]:
    """A moving picture as packets of one access unit each."""
    import av

    encoder = av.CodecContext.create(codec, "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.framerate = width, height, "yuv420p", 25
    encoder.options = {"preset": "superfast", "crf": "23", "x265-params": "log-level=none"}
    encoder.gop_size = 25
    still = photograph(width + 4 * count, height)
    packets = []
    for number in range(count):
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(still[:, 4 * number : 4 * number + width]), "rgb24")
        packets += encoder.encode(frame.reformat(format="yuv420p"))
    packets += encoder.encode(None)
    return [bytes(packet) for packet in packets]


def ok(answer: Any) -> Any:
    """Split `(value, ret)` or `ret`, and stop when a call failed."""
    value, ret = answer if isinstance(answer, tuple) else (None, answer)
    assert ret == 0, acl.get_recent_err_msg()
    return value


class Picture:
    """A picture in device memory."""

    def __init__(self, width: int, height: int, form: int = NV12, columns: int = 16, rows: int = 2) -> None:
        stride = -(-width // columns) * columns * (3 if form == RGB888 else 1)
        lines = -(-height // rows) * rows
        self.size = stride * lines if form == RGB888 else stride * lines * 3 // 2
        self.address = ok(acl.media.dvpp_malloc(self.size))
        self.desc = acl.media.dvpp_create_pic_desc()
        for name, value in {"data": self.address, "size": self.size, "format": form, "width": width, "height": height, "width_stride": stride, "height_stride": lines}.items():  # fmt: skip
            ok(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(self.desc, value))

    def destroy(self) -> None:
        """Give it back."""
        ok(acl.media.dvpp_destroy_pic_desc(self.desc))
        ok(acl.media.dvpp_free(self.address))


def upload(data: bytes) -> int:
    """Bytes in media memory."""
    address: int = ok(acl.media.dvpp_malloc(len(data)))
    ok(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), 1))
    return address


class Dvpp:
    """A channel and a stream."""

    def __init__(self) -> None:
        self.stream = ok(acl.rt.create_stream())
        self.channel = acl.media.dvpp_create_channel_desc()
        ok(acl.media.dvpp_create_channel(self.channel))
        self.resizing = acl.media.dvpp_create_resize_config()

    def decode(self, address: int, size: int, out: Picture, wait: bool = True) -> None:
        """JPEG to a picture."""
        ok(acl.media.dvpp_jpeg_decode_async(self.channel, address, size, out.desc, self.stream))
        if wait:
            ok(acl.rt.synchronize_stream(self.stream))

    def resize(self, source: Picture, out: Picture, wait: bool = True) -> None:
        """A picture to another size or format."""
        ok(acl.media.dvpp_vpc_resize_async(self.channel, source.desc, out.desc, self.resizing, self.stream))
        if wait:
            ok(acl.rt.synchronize_stream(self.stream))


class Vdec:
    """A video channel that counts what comes back."""

    def __init__(self, channel: int, codec: int, context: int) -> None:
        self.running, self.context, self.done, self.failed = True, context, 0, 0
        self.room = threading.Semaphore(8)
        self.thread = ok(acl.util.start_thread(self._loop, [100]))
        self.desc = acl.media.vdec_create_channel_desc()
        for name, value in {"channel_id": channel, "thread_id": self.thread, "callback": self._callback, "entype": codec, "out_pic_format": NV12}.items():  # fmt: skip
            ok(getattr(acl.media, f"vdec_set_channel_desc_{name}")(self.desc, value))
        ok(acl.media.vdec_create_channel(self.desc))
        self.config = acl.media.vdec_create_frame_config()
        self.codec = codec

    def _loop(self, args: list[int]) -> None:
        acl.rt.set_context(self.context)
        while self.running:
            acl.rt.process_report(args[0])

    def _callback(self, stream_desc: int, pic_desc: int, _picture: Picture) -> None:
        self.failed += acl.media.dvpp_get_pic_desc_ret_code(pic_desc) != 0
        self.done += 1
        acl.media.dvpp_destroy_stream_desc(stream_desc)
        self.room.release()

    def run(self, packets: list[tuple[int, int]], pictures: list[Picture]) -> None:
        """Decode packets that are in device memory, then wait for all of them."""
        for number, (address, size) in enumerate(packets):
            desc = acl.media.dvpp_create_stream_desc()
            for name, value in {"data": address, "size": size, "format": self.codec}.items():
                getattr(acl.media, f"dvpp_set_stream_desc_{name}")(desc, value)
            ok(acl.media.vdec_send_frame(self.desc, desc, pictures[number % len(pictures)].desc, self.config, None))
        last = acl.media.dvpp_create_stream_desc()
        acl.media.dvpp_set_stream_desc_eos(last, 1)
        ok(acl.media.vdec_send_frame(self.desc, last, 0, self.config, None))
        acl.media.dvpp_destroy_stream_desc(last)

    def close(self) -> None:
        """Give everything back."""
        ok(acl.media.vdec_destroy_channel(self.desc))
        ok(acl.media.vdec_destroy_channel_desc(self.desc))
        ok(acl.media.vdec_destroy_frame_config(self.config))
        self.running = False
        ok(acl.util.stop_thread(self.thread))
