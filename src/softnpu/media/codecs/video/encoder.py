"""H.264 and H.265 encoding: a picture in, its access unit out at once. It has no threads of its own (x265 has)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.media import doors
from softnpu.media.codecs.video import annexb
from softnpu.media.codecs.video.annexb import Codec, Unit
from softnpu.media.codecs.video.frames import fill
from softnpu.media.codecs.video.settings import EncoderSettings
from softnpu.media.pixels.formats import NV21
from softnpu.media.pixels.picture import Pixels

THREADS = 1  # of x264 for one encoder; more would cut every picture into slices
MIN_SIDE = {"h264": 2, "hevc": 16}
MAX_SIDE = 8192
_LIBRARY = {"h264": "libx264", "hevc": "libx265"}
_SEI_H264 = 6
_IDR_HEVC, _IDR_LONELY_HEVC = 19, 20
_FULL, _LIMITED = 2, 1
_I_PICTURE, _ANY_PICTURE = 1, 0


@dataclass
class Encoded:
    """One picture of the stream: an access unit in Annex B form; parameter sets stand before each key picture."""

    token: object
    data: bytes
    key: bool
    units: list[Unit]


class VideoEncoder:
    """Encodes one stream of NV12 or NV21 pictures. The codec is opened with the first picture."""

    def __init__(self, codec: Codec, width: int, height: int, settings: EncoderSettings) -> None:
        if codec not in _LIBRARY:
            raise NpuError(codes.INVALID_PARAM, f"there is no encoder for {codec!r}", "use h264 or hevc")
        low = MIN_SIDE[codec]
        if width % 2 or height % 2 or not (low <= width <= MAX_SIDE and low <= height <= MAX_SIDE):
            raise NpuError(
                codes.INVALID_PARAM,
                f"a {codec} stream of {width}x{height} cannot be encoded",
                f"give it even sides from {low} to {MAX_SIDE}",
            )
        settings.check(codec)
        self.codec: Codec = codec
        self.width, self.height = width, height
        self.settings = settings
        self._av = doors.av()
        self._context: Any = None
        self._frame: Any = None
        self._tokens: dict[int, object] = {}
        self._serial = 0

    def send(self, pixels: Pixels, token: object, force_key: bool = False) -> list[Encoded]:
        """Encode a picture; its memory may be used again afterwards."""
        frame = self._prepare(pixels)
        self._serial += 1
        self._tokens[self._serial] = token
        frame.pts = self._serial
        frame.pict_type = _I_PICTURE if force_key else _ANY_PICTURE
        return self._encode(frame)

    def flush(self) -> list[Encoded]:
        """What is still inside, which is nothing as a rule. The next picture begins a new stream."""
        result = self._encode(None) if self._context is not None else []
        self._context = None
        return result

    def close(self) -> None:
        """Give the codec's memory back."""
        self._context = self._frame = None
        self._tokens.clear()

    def _prepare(self, pixels: Pixels) -> Any:
        """The picture in the frame that is used for all of them."""
        if self._context is not None and self._pixel_format(pixels) != self._context.pix_fmt:
            self._context = None  # NV12 and NV21 in turn: a new stream begins
        if self._context is None:
            form = self._pixel_format(pixels)
            if self._frame is None or self._frame.format.name != form:
                self._frame = self._av.VideoFrame(self.width, self.height, form)
            fill(self._frame, pixels)
            self._open(form)
            return self._frame
        self._frame.make_writable()
        fill(self._frame, pixels)
        return self._frame

    def _pixel_format(self, pixels: Pixels) -> str:
        if self.codec == "hevc":
            return "yuv420p10le" if self.settings.profile == "main10" else "yuv420p"
        return "nv21" if pixels.format.value == NV21 else "nv12"

    def _open(self, form: str) -> None:
        context = self._av.CodecContext.create(_LIBRARY[self.codec], "w")
        context.width, context.height, context.pix_fmt = self.width, self.height, form
        context.framerate = Fraction(self.settings.frame_rate)
        context.time_base = 1 / Fraction(self.settings.frame_rate)
        context.thread_count = THREADS
        self._describe(context)
        context.options = self.settings.options(self.codec, self.width, self.height)
        try:
            context.open()
        except self._av.error.FFmpegError as error:
            raise NpuError(
                codes.INVALID_PARAM,
                f"{_LIBRARY[self.codec]} refuses a {self.width}x{self.height} stream with {self.settings}: {error.strerror}",
                "change the size or the settings of the channel",
            ) from error
        self._context = context

    def _describe(self, context: Any) -> None:
        vui = self.settings.vui
        aspect = self.settings.aspect()
        if aspect is not None:
            context.sample_aspect_ratio = aspect
        if vui.full_range is not None:
            context.color_range = _FULL if vui.full_range else _LIMITED
        for name, value in (
            ("color_primaries", vui.primaries),
            ("color_trc", vui.transfer),
            ("colorspace", vui.matrix),
        ):
            if value is not None:
                setattr(context, name, value)

    def _encode(self, frame: Any) -> list[Encoded]:
        try:
            packets = self._context.encode(frame)
        except self._av.error.FFmpegError as error:
            self._context = None
            raise NpuError(
                codes.INTERNAL_ERROR,
                f"{_LIBRARY[self.codec]} cannot encode the picture: {error.strerror}",
                "send the next picture; it begins a new stream",
            ) from error
        return [self._finish(packet) for packet in packets]

    def _finish(self, packet: Any) -> Encoded:
        data, key = bytes(packet), bool(packet.is_keyframe)
        if key and self.codec == "hevc":
            data = _name_idr(data)
        elif key and not self.settings.intra_refresh:
            data = _without_messages(data)
        return Encoded(self._tokens.pop(packet.pts, None), data, key, annexb.units(data, self.codec))


def _without_messages(data: bytes) -> bytes:
    """Leave out that x264 writes its name and settings into the stream; the engine writes no such thing."""
    nal_units = annexb.units(data, "h264")
    return b"".join(data[at : at + size] for kind, at, size in nal_units if kind != _SEI_H264)


def _name_idr(data: bytes) -> bytes:
    """Mark key pictures as the engine does, with the type that also allows leading pictures; programs look for that number."""
    result = bytearray(data)
    for unit in annexb.units(data, "hevc"):
        if unit[0] == _IDR_LONELY_HEVC:
            at = annexb.body(data, unit)
            result[at] = result[at] & 0x81 | _IDR_HEVC << 1
    return bytes(result)
