"""Videos made with PyAV, and small programs that send them through the channels of acl.media."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import av
import numpy as np

import acl
from tests.support import WAIT, Reporter, in_thread, ok

H265, H264_BASELINE, H264_MAIN, H264_HIGH = range(4)
NV12, NV21, RGB, BGR = 1, 2, 12, 13
ENTYPES = {"h264": H264_MAIN, "hevc": H265}
_ENCODERS = {"h264": "libx264", "hevc": "libx265"}


def scene(index: int, width: int, height: int) -> np.ndarray[Any, Any]:
    """A moving picture, RGB: smooth, so that it survives coding."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = [np.sin((x + 7 * index) / 19 + n) + np.cos((y - 5 * index) / 23 - n) for n in range(3)]
    pixels: np.ndarray[Any, Any] = ((np.stack(planes, -1) + 2) * 63).astype(np.uint8)
    return pixels


@functools.cache
def video(codec: str, count: int, width: int = 160, height: int = 128, b_frames: int = 0, form: str = "yuv420p") -> tuple[bytes, ...]:  # fmt: skip
    """An Annex B video, one access unit a packet, in coding order."""
    context = av.CodecContext.create(_ENCODERS[codec], "w")
    context.width, context.height, context.pix_fmt = width, height, form
    context.framerate = 25  # type: ignore[assignment]
    private = f"bframes={b_frames}:b-adapt=0:keyint=12:scenecut=0:repeat-headers=1:annexb=1"
    name = "x265-params" if codec == "hevc" else "x264-params"
    context.options = {"preset": "ultrafast", name: private + (":log-level=none" if codec == "hevc" else "")}
    packets = []
    for index in range(count):
        frame = av.VideoFrame.from_ndarray(scene(index, width, height), "rgb24").reformat(format=form)
        frame.pts = index
        packets += context.encode(frame)
    packets += context.encode(None)
    assert len(packets) == count
    return tuple(bytes(packet) for packet in packets)


def reference(codec: str, packets: tuple[bytes, ...], form: str = "nv12") -> list[tuple[int, np.ndarray[Any, Any]]]:
    """What FFmpeg makes of the packets, in display order: (number of the packet, picture)."""
    context = av.CodecContext.create(codec, "r")
    frames = []
    for index, data in enumerate([*packets, None]):
        packet = None if data is None else av.Packet(data)
        if packet is not None:
            packet.pts = index
        frames += [(frame.pts, frame.reformat(format=form).to_ndarray()) for frame in context.decode(packet)]
    return frames


def upload(data: bytes) -> int:
    """Bytes in media memory."""
    address: int = ok(acl.media.dvpp_malloc(max(1, len(data))))
    if data:
        ok(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), 1))
    return address


def download(address: int, size: int) -> bytes:
    """Bytes of the device."""
    target = bytes(size)
    ok(acl.rt.memcpy(acl.util.bytes_to_ptr(target), size, address, size, 2))
    return target


class Result:
    """What a callback of the decoder saw."""

    def __init__(self, stream: int, picture: int, user_data: Any) -> None:
        get = acl.media
        self.stream, self.picture, self.user_data = stream, picture, user_data
        self.thread = threading.get_ident()
        self.data, self.size, self.code, self.width, self.height = 0, 0, -1, 0, 0
        self.pixels = b""
        if picture:
            self.data = get.dvpp_get_pic_desc_data(picture)
            self.size = get.dvpp_get_pic_desc_size(picture)
            self.code = get.dvpp_get_pic_desc_ret_code(picture)
            self.width, self.height = get.dvpp_get_pic_desc_width(picture), get.dvpp_get_pic_desc_height(picture)
            self.strides = get.dvpp_get_pic_desc_width_stride(picture), get.dvpp_get_pic_desc_height_stride(picture)
            self.format = get.dvpp_get_pic_desc_format(picture)
            self.pixels = download(self.data, self.size) if self.size else b""


class Vdec:
    """A decoding channel with a thread; each packet has memory of its own, freed in the callback."""

    def __init__(self, entype: int = H264_MAIN, number: int = 0, reporter: Reporter | None = None, **settings: int) -> None:  # fmt: skip
        self.results: list[Result] = []
        self.hook: Callable[[Result], None] = lambda _: None
        self.own = reporter is None
        self.context = ok(acl.rt.get_context())
        self.reporter = reporter or Reporter()
        self.desc = acl.media.vdec_create_channel_desc()
        values = {"channel_id": number, "thread_id": self.reporter.tid, "callback": self._callback, "entype": entype}
        for name, value in (values | settings).items():
            ok(getattr(acl.media, f"vdec_set_channel_desc_{name}")(self.desc, value))
        ok(acl.media.vdec_create_channel(self.desc))
        self.frame = acl.media.vdec_create_frame_config()

    def _callback(self, stream: int, picture: int, user_data: Any) -> None:
        ok(acl.rt.set_context(self.context))
        result = Result(stream, picture, user_data)
        self.results.append(result)
        self.hook(result)
        for destroy, desc, free in (
            (acl.media.dvpp_destroy_stream_desc, stream, acl.media.dvpp_get_stream_desc_data),
            (acl.media.dvpp_destroy_pic_desc, picture, acl.media.dvpp_get_pic_desc_data),
        ):
            if desc:
                ok(acl.media.dvpp_free(free(desc)))
                ok(destroy(desc))

    def send(self, data: bytes, size: int, user_data: Any = None, skipped: bool = False, eos: int = 0, **fields: int) -> int:  # fmt: skip
        """Send a packet with an output of `size` bytes."""
        stream, picture = packet(data, eos), 0
        if not skipped:
            picture = output(size, **fields)
            answer = acl.media.vdec_send_frame(self.desc, stream, picture, self.frame, user_data)
        else:
            answer = acl.media.vdec_send_skipped_frame(self.desc, stream, self.frame, user_data)
        return int(answer)

    def end(self) -> None:
        """The end of the stream, without a picture."""
        stream = packet(b"", eos=1)
        ok(in_thread_with_context(lambda: acl.media.vdec_send_frame(self.desc, stream, 0, self.frame, None)))
        ok(acl.media.dvpp_destroy_stream_desc(stream))

    def close(self) -> None:
        """Destroy everything."""
        ok(in_thread_with_context(lambda: acl.media.vdec_destroy_channel(self.desc)))
        ok(acl.media.vdec_destroy_channel_desc(self.desc))
        ok(acl.media.vdec_destroy_frame_config(self.frame))
        if self.own:
            self.reporter.close()

    def __enter__(self) -> Vdec:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()


def in_thread_with_context(function: Callable[[], Any]) -> Any:
    """The function in a thread of its own, so that one that hangs is a failure."""
    context = ok(acl.rt.get_context())

    def run() -> Any:
        ok(acl.rt.set_context(context))
        return function()

    return in_thread(run, WAIT)


def packet(data: bytes, eos: int = 0) -> int:
    """A stream description over media memory of its own."""
    stream: int = acl.media.dvpp_create_stream_desc()
    ok(acl.media.dvpp_set_stream_desc_data(stream, upload(data) if data else 0))
    ok(acl.media.dvpp_set_stream_desc_size(stream, len(data)))
    ok(acl.media.dvpp_set_stream_desc_eos(stream, eos))
    return stream


def output(size: int, **fields: int) -> int:
    """A picture description over media memory of its own."""
    picture: int = acl.media.dvpp_create_pic_desc()
    ok(acl.media.dvpp_set_pic_desc_data(picture, ok(acl.media.dvpp_malloc(size))))
    ok(acl.media.dvpp_set_pic_desc_size(picture, size))
    for name, value in fields.items():
        ok(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(picture, value))
    return picture


class Venc:
    """An encoding channel with a thread; coded pictures are copied in the callback."""

    def __init__(self, width: int, height: int, entype: int = H264_MAIN, reporter: Reporter | None = None, **settings: int) -> None:  # fmt: skip
        self.units: list[bytes] = []
        self.seen: list[tuple[int, Any]] = []
        self.outputs: list[tuple[int, int]] = []
        self.codes: list[int] = []
        self.hook: Callable[[int, int, Any], None] = lambda *_: None
        self.own = reporter is None
        self.reporter = reporter or Reporter()
        self.context = ok(acl.rt.get_context())
        self.desc = acl.media.venc_create_channel_desc()
        values = {"thread_id": self.reporter.tid, "callback": self._callback, "entype": entype, "pic_format": NV12}
        values |= {"pic_width": width, "pic_height": height, "key_frame_interval": 16}
        for name, value in (values | settings).items():
            ok(getattr(acl.media, f"venc_set_channel_desc_{name}")(self.desc, value))
        ok(acl.media.venc_create_channel(self.desc))
        self.frame = acl.media.venc_create_frame_config()

    def _callback(self, picture: int, stream: int, user_data: Any) -> None:
        ok(acl.rt.set_context(self.context))
        get = acl.media
        data, size = get.dvpp_get_stream_desc_data(stream), get.dvpp_get_stream_desc_size(stream)
        self.seen.append((picture, user_data))
        self.outputs.append((stream, data))
        self.codes.append(get.dvpp_get_stream_desc_ret_code(stream))
        self.units.append(download(data, size) if size else b"")
        self.hook(picture, stream, user_data)

    def send(self, picture: int, user_data: Any = None, eos: int = 0, force: int = 0) -> int:
        """Send a picture description, or 0."""
        ok(acl.media.venc_set_frame_config_eos(self.frame, eos))
        ok(acl.media.venc_set_frame_config_force_i_frame(self.frame, force))
        answer: int = acl.media.venc_send_frame(self.desc, picture, 0, self.frame, user_data)
        return answer

    def end(self) -> None:
        """The end of the stream."""
        ok(in_thread_with_context(lambda: self.send(0, eos=1)))

    def close(self) -> None:
        """Destroy everything."""
        ok(in_thread_with_context(lambda: acl.media.venc_destroy_channel(self.desc)))
        ok(acl.media.venc_destroy_channel_desc(self.desc))
        ok(acl.media.venc_destroy_frame_config(self.frame))
        if self.own:
            self.reporter.close()

    def __enter__(self) -> Venc:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()


def nv12(index: int, width: int, height: int) -> np.ndarray[Any, Any]:
    """A picture of the scene."""
    frame = av.VideoFrame.from_ndarray(scene(index, width, height), "rgb24").reformat(format="nv12")
    planes: np.ndarray[Any, Any] = frame.to_ndarray()
    return planes


def picture_of(array: np.ndarray[Any, Any], **fields: int) -> int:
    """A picture description over the bytes of an array."""
    picture: int = acl.media.dvpp_create_pic_desc()
    ok(acl.media.dvpp_set_pic_desc_data(picture, upload(array.tobytes())))
    ok(acl.media.dvpp_set_pic_desc_size(picture, array.nbytes))
    for name, value in fields.items():
        ok(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(picture, value))
    return picture
