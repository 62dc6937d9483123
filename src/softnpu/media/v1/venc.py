"""Video encoding of `acl.media`: a picture goes in, its coded form comes back in a callback and lives as long as that runs."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from softnpu.base.errors import NpuError, Raise, codes
from softnpu.base.units import align_up
from softnpu.media import rules
from softnpu.media.codecs.video.annexb import Codec
from softnpu.media.codecs.video.encoder import Encoded, VideoEncoder
from softnpu.media.codecs.video.settings import EncoderSettings
from softnpu.media.pixels.formats import NV12, NV21
from softnpu.media.pixels.picture import Picture, Pixels
from softnpu.media.v1.descs import PicDesc, StreamDesc
from softnpu.media.v1.lent import lent
from softnpu.media.v1.video_channel import VideoChannel
from softnpu.media.v1.video_desc import Callback, VideoChannelDesc
from softnpu.runtime.process import process

_FAILED = 1
_ROW = 16  # pixels of which rows are multiples where the program does not say
_ROOM = 8  # pictures are copied when they are sent
_PROFILES: tuple[tuple[Codec, str], ...] = (  # by entype
    ("hevc", "main"),
    ("h264", "baseline"),
    ("h264", "main"),
    ("h264", "high"),
)
_FRAME_RATE = 30
_COUNT = 128

# Fields by aclvencChannelDescParamType, and how many bits each has.
PARAMS = (
    ("thread_id", 64), ("callback", 0), ("pic_format", 32), ("entype", 32), ("pic_width", 32), ("pic_height", 32), ("key_frame_interval", 32),
    ("buf_addr", 64), ("buf_size", 32), ("rc_mode", 32), ("src_rate", 32), ("max_bit_rate", 32), ("max_ip_prop", 32),
)  # fmt: skip


@dataclass
class VencChannelDesc(VideoChannelDesc["VencChannel"]):
    """What a program sets before it creates an encoding channel. 0 means not set: the chip's default."""

    engine = "VENC"
    choices: ClassVar = {
        "entype": range(len(_PROFILES)),
        "rc_mode": range(3),
        "key_frame_interval": range(1 << 16),
        "max_ip_prop": range(101),
    }

    pic_format: int = 0
    entype: int = 0
    pic_width: int = 0
    pic_height: int = 0
    key_frame_interval: int = 0
    buf_addr: int = 0
    buf_size: int = 0
    rc_mode: int = 0
    src_rate: int = 0
    max_bit_rate: int = 0
    max_ip_prop: int = 0

    def put_param(self, kind: int, value: object) -> None:
        """Set a field by its number, from anything that the program passed."""
        name, bits = _param(kind)
        if name == "callback":
            if not callable(value):
                raise Raise(TypeError("parameter must be callable"))
            self.callback = value
            return
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise Raise(TypeError("acl.media.venc_set_channel_desc_param args parse failed")) from None
        if name == "max_ip_prop" and number:
            takes = rules.row("venc").get("ip_prop", True)
            rules.insist(takes, "it does not support MAX_IP_PROP", codes.API_NOT_SUPPORT)
        self.put(name, number & ((1 << bits) - 1))

    def param(self, kind: int) -> Any:
        """A field by its number."""
        return getattr(self, _param(kind)[0]) or 0


def _param(kind: int) -> tuple[str, int]:
    if not 0 <= kind < len(PARAMS):
        raise NpuError(
            codes.INVALID_PARAM, f"VENC channel parameter {kind} is not known", f"use 0 to {len(PARAMS) - 1}"
        )
    return PARAMS[kind]


@dataclass
class FrameConfig:
    """Settings of one picture."""

    force_i_frame: int = 0
    eos: int = 0


@dataclass(eq=False)
class Frame:
    """A picture on its way: what the callback gets."""

    pic_handle: int
    user_data: Any
    callback: Callback
    pixels: Pixels | None
    force_key: bool


# ---- the channel -----------------------------------------------------------------------------------------------------


class VencChannel(VideoChannel):
    """An encoder and the books about what was sent to it."""

    engine = "VENC"

    def __init__(self, desc: VencChannelDesc, number: int) -> None:
        self._desc = replace(desc, callback=None, channel=None)
        self._encoder = VideoEncoder(_PROFILES[desc.entype][0], desc.pic_width, desc.pic_height, _settings(desc))
        self._inside: set[Frame] = set()  # what the encoder has not given back
        self._own_buffer = threading.Lock()  # held while a callback looks at the buffer that the program gave
        super().__init__(number, desc.thread_id, _ROOM)

    def send(self, frame: Frame | None, eos: bool) -> None:
        """Queue a picture; with `eos`, wait until everything has come back."""
        self.check_open()
        if frame is not None:
            self.check_thread()
            self.submit(lambda: self._encode(frame), "VENC", lambda: self._answer(frame, b"", _FAILED))
        if eos:
            self.put(self.flush, "VENC_FLUSH")
            self.drain()

    def picture(self, desc: PicDesc) -> Picture:
        """Where a picture lies; what the description leaves open is that of the channel."""
        picture = replace(
            desc.picture(),
            width=desc.width or self._desc.pic_width,
            height=desc.height or self._desc.pic_height,
            format=desc.format or self._desc.pic_format or NV12,
        )
        if (picture.width, picture.height) != (self._desc.pic_width, self._desc.pic_height):
            raise NpuError(
                codes.INVALID_PARAM,
                f"the picture is {picture.width}x{picture.height}, the channel encodes {self._desc.pic_width}x{self._desc.pic_height}",
                "scale it first (VPC), or make a channel for its size",
            )
        _check_format(picture.format)
        return picture.with_strides(_ROW)

    def _encode(self, frame: Frame) -> None:
        pixels, frame.pixels = frame.pixels, None
        assert pixels is not None
        self._inside.add(frame)
        try:
            self._finish(self._encoder.send(pixels, frame, frame.force_key))
        except Exception as error:  # whatever a codec finds: the picture comes back to the program
            self.complain(error)
            self._give_back(frame, b"", _FAILED)

    def flush(self) -> None:
        try:
            self._finish(self._encoder.flush())
        except Exception as error:
            self.complain(error)
        for frame in list(self._inside):
            self._give_back(frame, b"", _FAILED)

    def _finish(self, answers: list[Encoded]) -> None:
        for coded in answers:
            self._give_back(coded.token, coded.data, 0)  # type: ignore[arg-type]

    def _give_back(self, frame: Frame, data: bytes, code: int) -> None:
        """The answer to a picture that was in the encoder; there is one."""
        if frame in self._inside:
            self._inside.remove(frame)
            self._answer(frame, data, code)

    # ---- results ----------------------------------------------------------------------------------------------------

    def _answer(self, frame: Frame, data: bytes, code: int) -> None:
        desc = StreamDesc(size=len(data), format=self._desc.entype, ret_code=code, lent=True)

        def call() -> None:
            handles = process().handles
            handle = handles.add("stream_desc", desc)
            try:
                self._lend(data, desc, lambda: frame.callback(frame.pic_handle, handle, frame.user_data))
            finally:
                handles.discard(handle)

        self.deliver(call)

    def _lend(self, data: bytes, desc: StreamDesc, call: Callable[[], object]) -> None:
        """Put coded data into memory of the device for as long as a callback runs: the program's buffer, or some of ours."""
        memory = process().memory
        own = bool(self._desc.buf_addr) and 0 < len(data) <= self._desc.buf_size and self._own_buffer.acquire(False)
        allocation = None
        try:
            try:
                if own:
                    desc.data = self._desc.buf_addr
                elif data:
                    desc.data = memory.allocate(self.device, len(data), 0, kind="media", align=128)
                    allocation = memory.atlas.find(desc.data)
                if data:
                    memory.store(desc.data, data)
            except NpuError as error:  # no memory: the picture is lost, its callback is not
                self.complain(error)
                desc.data, desc.size, desc.ret_code = 0, 0, _FAILED
            with lent(allocation):
                call()
        finally:
            if allocation is not None:
                memory.release(allocation)  # the object: a device that was reset meanwhile may have the address again
            if own:
                self._own_buffer.release()

    def release(self) -> None:
        self._encoder.close()


def _check_format(value: int) -> None:
    if value not in (NV12, NV21):
        raise NpuError(
            codes.INVALID_PARAM,
            f"VENC takes no pictures of format {value}",
            f"use {NV12} (YUV_SEMIPLANAR_420) or {NV21} (YVU_SEMIPLANAR_420)",
        )


def _settings(desc: VencChannelDesc) -> EncoderSettings:
    """How the encoder is set up: the program's values, the chip's where it gave none."""
    _check_format(desc.pic_format or NV12)
    if not desc.pic_width or not desc.pic_height or desc.pic_width % 2 or desc.pic_height % 2:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the pictures of the VENC channel are {desc.pic_width}x{desc.pic_height}",
            "set an even width and height",
        )
    row = align_up(desc.pic_width, _ROW)
    rules.check(
        "venc", "in", Picture(0, 0, desc.pic_width, desc.pic_height, row, desc.pic_height, desc.pic_format or NV12)
    )
    rules.check_codec("venc", _PROFILES[desc.entype][0], desc.pic_width, desc.pic_height)
    limits = rules.row("venc")
    least, most = limits.get("buffer", (desc.buf_size, desc.buf_size))
    fits = not desc.buf_size or least <= desc.buf_size <= most
    rules.insist(fits, f"buf_size is {desc.buf_size}, it may be {least} to {most}, or 0 for the default")
    rate = _within("src_rate", desc.src_rate or _FRAME_RATE, limits["frame_rate"])
    return EncoderSettings(
        gop=desc.key_frame_interval or rate,
        bit_rate_kbps=_within("max_bit_rate", desc.max_bit_rate or limits["default_bit_rate"], limits["bit_rate"]),
        frame_rate=rate,
        rate_control=(limits["default_rate_control"], "vbr", "cbr")[desc.rc_mode],
        profile=_PROFILES[desc.entype][1],
    )


def _within(name: str, value: int, limits: list[int]) -> int:
    low, high = limits
    if not low <= value <= high:
        raise NpuError(
            codes.INVALID_PARAM,
            f"{name} {value} of the VENC channel is not possible",
            f"use 0 (default) or {low} to {high}",
        )
    return value


# ---- what the functions do -------------------------------------------------------------------------------------------


def create_channel(desc: VencChannelDesc) -> None:
    """Open the channel of a description; it gets the lowest free number."""
    process().current()
    rules.supports("venc", 1)
    desc.create(_COUNT, None, lambda number: VencChannel(desc, number))


def send(desc: VencChannelDesc, pic_handle: int, pic_desc: PicDesc | None, config: FrameConfig, user_data: Any) -> None:
    """Send a picture or the end of the stream. The picture is copied before this returns."""
    if desc.callback is None:
        raise Raise(RuntimeError("no callback was set: call venc_set_channel_desc_callback before sending"))
    channel = desc.opened()
    if pic_desc is None:
        if not config.eos:
            raise NpuError(
                codes.INVALID_PARAM,
                "the picture description is null (0)",
                "only the end of a stream has no picture: set eos to 1",
            )
        channel.send(None, True)
        return
    picture = channel.picture(pic_desc)
    rules.check("venc", "in", picture)
    pixels = picture.pixels(process().memory, False, "input picture")
    channel.send(
        Frame(pic_handle, user_data, desc.callback, pixels.copy(), bool(config.force_i_frame)), bool(config.eos)
    )
