"""Video decoding of `acl.media`: a packet goes in with the picture it shall become, and comes back in a callback."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from softnpu.base.errors import NpuError, Raise, codes
from softnpu.base.log import ERROR, WARNING
from softnpu.base.recent import recent
from softnpu.constants import ACL_VDEC_CSC_MATRIX_UINT32
from softnpu.media import doors, rules
from softnpu.media.codecs.video.annexb import Codec, is_known, units
from softnpu.media.codecs.video.decoder import Decoded, VideoDecoder
from softnpu.media.codecs.video.deliver import deliver
from softnpu.media.pixels.csc import matrix
from softnpu.media.pixels.formats import BGR_888, NV12, NV21, RGB_888, pixel_format
from softnpu.media.pixels.picture import Picture, Pixels
from softnpu.media.v1.descs import PicDesc, StreamDesc
from softnpu.media.v1.video_channel import VideoChannel
from softnpu.media.v1.video_desc import Callback, VideoChannelDesc
from softnpu.runtime.process import process

# ret_code of a picture.
SUCCESS, PARAM_INVALID, OUTPUT_SIZE_INVALID, INTERNAL_ERROR, CHANNEL_ABNORMAL = 0, 3, 4, 5, 14
DECODE_FAIL, VIDEO_SIZE, BITSTREAM, IMAGE_FORMAT = 0x10004, 0x10006, 0x10008, 0x1000A
NO_PICTURE, FRAME_BUFFER = 0x20000, 0x20002

OUTPUT_FORMATS = (NV12, NV21, RGB_888, BGR_888, 18, 19)
CODECS: tuple[Codec, ...] = ("hevc", "h264", "h264", "h264")  # by entype
_PARAM_BYTES = 4
_ROOM = 32
_HEAD = 64


@dataclass
class VdecChannelDesc(VideoChannelDesc["VdecChannel"]):
    """What a program sets before it creates a decoding channel. 0 means not set, except for the id."""

    engine = "VDEC"
    choices: ClassVar = {"entype": range(len(CODECS)), "out_mode": range(2), "bit_depth": range(2)}

    channel_id: int | None = None
    entype: int = 0
    out_pic_format: int = 0
    out_pic_width: int = 0
    out_pic_height: int = 0
    ref_frame_num: int = 0
    out_mode: int = 0
    bit_depth: int = 0
    csc: int = 0

    def put_param(self, kind: int, value: int) -> None:
        """Choose the colour matrix."""
        _check_param(kind)
        matrix(value)
        self.csc = value

    def param(self, kind: int) -> tuple[int, int]:
        """Bytes and value of a parameter."""
        _check_param(kind)
        return _PARAM_BYTES, self.csc


def _check_param(kind: int) -> None:
    if kind != ACL_VDEC_CSC_MATRIX_UINT32:
        raise NpuError(
            codes.INVALID_PARAM,
            f"VDEC channel parameter {kind} is not known",
            f"the only one is {ACL_VDEC_CSC_MATRIX_UINT32} (ACL_VDEC_CSC_MATRIX_UINT32)",
        )


class FrameConfig:
    """Settings of one packet; there are none yet."""


@dataclass(eq=False)
class Packet:
    """A packet on its way: what the callback gets, and where the picture goes (None: nowhere)."""

    stream_handle: int
    pic_handle: int
    user_data: Any
    callback: Callback
    stream_desc: StreamDesc
    pic_desc: PicDesc | None
    data: bytes = b""
    picture: Picture | None = None
    head: bytes = b""
    reason: str = ""  # why there is no picture


# ---- the channel -----------------------------------------------------------------------------------------------------


class VdecChannel(VideoChannel):
    """A decoder and the books about what was sent to it."""

    engine = "VDEC"

    def __init__(self, desc: VdecChannelDesc, number: int) -> None:
        doors.cv2()  # writes the pictures: that it is missing is told now
        self._settings = replace(desc, callback=None, channel=None)
        self._csc = matrix(desc.csc)
        self._inside: set[Packet] = set()  # what the decoder has not given back
        self._fresh = True  # nothing was sent since the beginning or the last end of a stream
        self._decoder = VideoDecoder(CODECS[desc.entype], immediate=desc.out_mode == 1)
        super().__init__(number, desc.thread_id, _ROOM)

    def send(self, packet: Packet, eos: bool) -> None:
        """Queue a packet; with `eos`, wait until all pictures have come back."""
        self.check_open()
        if packet.data:
            self.check_thread()
            self._fresh = False
            self.submit(lambda: self._decode(packet), "VDEC", lambda: self._answer(packet, CHANNEL_ABNORMAL))
        if not eos:
            return
        if self._fresh:
            self._refuse_end(packet)
        else:
            self._fresh = True
            ending = None if packet.data or packet.pic_desc is None else packet
            self.put(lambda: self._end(ending), "VDEC_FLUSH")
        self.drain()

    def _refuse_end(self, packet: Packet) -> None:
        """The end of a stream that has no packet: the send succeeds, the codes of the descriptions tell."""
        packet.stream_desc.ret_code = BITSTREAM
        self.complain("an end of stream came first or twice", WARNING)
        if packet.pic_desc is not None:
            self._answer(packet, BITSTREAM)

    def _decode(self, packet: Packet) -> None:
        data, packet.data = packet.data, b""
        packet.head = data[:_HEAD]
        self._inside.add(packet)
        try:
            self._finish(self._decoder.send(data, packet))
        except Exception as error:  # whatever a codec finds: the packet comes back to the program
            self.complain(error)
            self.later(lambda: self._give_back(packet, DECODE_FAIL))

    def flush(self) -> None:
        try:
            self._finish(self._decoder.flush())
        except Exception as error:
            self.complain(error)
        left = list(self._inside)
        self.later(lambda: self._give_up(left))

    def _give_up(self, packets: list[Packet]) -> None:
        for packet in packets:
            self._give_back(packet, DECODE_FAIL)

    def _end(self, ending: Packet | None) -> None:
        self.flush()
        if ending is not None:
            self.later(lambda: self._answer(ending, NO_PICTURE))

    def _finish(self, answers: list[Decoded]) -> None:
        for decoded in answers:
            self.later(functools.partial(self._finish_one, decoded))

    def _finish_one(self, decoded: Decoded) -> None:
        packet: Packet = decoded.token  # type: ignore[assignment]
        try:
            code = self._result(decoded, packet)
        except Exception as error:
            self.complain(error)
            packet.reason = str(error)
            code = PARAM_INVALID if isinstance(error, NpuError) else INTERNAL_ERROR
        self._give_back(packet, code)

    def _give_back(self, packet: Packet, code: int) -> None:
        """The answer to a packet that was in the decoder; there is one."""
        if packet in self._inside:
            self._inside.remove(packet)
            self._answer(packet, code)

    def _answer(self, packet: Packet, code: int) -> None:
        """Hand a packet back. Its descriptions are written in the program's thread: one may be in use for several packets."""
        picture = packet.picture

        def call() -> None:
            if packet.reason:
                recent.note("the packet of acl.media.vdec_send_frame", NpuError(codes.INVALID_PARAM, packet.reason))
            packet.stream_desc.ret_code = code
            if packet.pic_desc is not None:
                packet.pic_desc.ret_code = code
                if picture is not None and code == SUCCESS:
                    _fill_in(packet.pic_desc, picture)
            packet.callback(packet.stream_handle, packet.pic_handle, packet.user_data)

        self.deliver(call)

    # ---- pictures ---------------------------------------------------------------------------------------------------

    def _result(self, decoded: Decoded, packet: Packet) -> int:
        """Write a picture to where the program wants it; returns its ret_code."""
        if decoded.error is not None:
            self.complain(decoded.error)
            packet.reason = decoded.error
            return DECODE_FAIL if self._looks_right(packet.head) else BITSTREAM
        if decoded.pixels is None or decoded.no_picture:
            return NO_PICTURE
        refused = self._refused(decoded.pixels)
        if refused or packet.picture is None:
            return refused
        value = packet.picture.format or self._settings.out_pic_format or NV12
        if value not in (rules.row("vdec")["formats"] if rules.strict() else OUTPUT_FORMATS):
            packet.reason = f"pictures of format {value} are not written; use one of {OUTPUT_FORMATS}"
            self.complain(packet.reason)
            return IMAGE_FORMAT
        packet.picture = self._placed(replace(packet.picture, format=value), decoded.pixels)
        rules.check("vdec", "out", packet.picture)
        return self._write(decoded.pixels, packet.picture, packet)

    def _placed(self, picture: Picture, pixels: Pixels) -> Picture:
        """The output with the sides of the video and with strides where the program gave none."""
        if not picture.width and not picture.height:
            picture = replace(picture, width=pixels.width, height=pixels.height)
        return picture.with_strides(*rules.row_alignment("vdec"))

    def _refused(self, pixels: Pixels) -> int:
        """The ret_code of a video that the chip does not decode, 0 for others."""
        try:
            rules.check("vdec", "out", stream=(pixels.width, pixels.height))
            rules.check_codec("vdec", self._decoder.codec, pixels.width, pixels.height)
        except NpuError as error:
            self.complain(error)
            return VIDEO_SIZE
        settings, what = self._settings, ""
        if 0 < settings.out_pic_width < pixels.width or 0 < settings.out_pic_height < pixels.height:
            what = f"was set up for {settings.out_pic_width}x{settings.out_pic_height}, the video is {pixels.width}x{pixels.height}"
        elif pixels.format.item > 1 and not settings.bit_depth and rules.family() == "310P":
            what = "was set up for 8 bits, the video has 10 (vdec_set_channel_desc_bit_depth)"
        if what:
            self.complain(what, ERROR if rules.strict() else WARNING)
        return FRAME_BUFFER if what and rules.strict() else SUCCESS

    def _looks_right(self, head: bytes) -> bool:
        """Whether a packet at least begins as one of this codec does."""
        nal_units = units(head, self._decoder.codec)
        return bool(nal_units) and is_known(nal_units[0][0], self._decoder.codec)

    def _write(self, pixels: Pixels, picture: Picture, packet: Packet) -> int:
        form = pixel_format(picture.format)
        try:
            out = picture.pixels(process().memory, True, "output picture")
        except NpuError as error:
            self.complain(error)
            packet.reason = error.text
            short = form.size(picture.width_stride, picture.height_stride) > picture.size
            return OUTPUT_SIZE_INVALID if short else PARAM_INVALID
        deliver(pixels, out, self._csc)
        return SUCCESS

    def release(self) -> None:
        self._decoder.close()


def _fill_in(desc: PicDesc, picture: Picture) -> None:
    """Tell the program what it left open. The size stays its own: what it allocated."""
    desc.format, desc.width, desc.height = picture.format, picture.width, picture.height
    desc.width_stride, desc.height_stride = picture.width_stride, picture.height_stride


# ---- what the functions do -------------------------------------------------------------------------------------------


def create_channel(desc: VdecChannelDesc) -> None:
    """Open the channel of a description."""
    process().current()
    rules.supports("vdec", 1)
    if desc.channel_id is None:
        raise NpuError(codes.INVALID_PARAM, "no channel id was set", "call vdec_set_channel_desc_channel_id")
    desc.create(rules.channel_ids("vdec_v1"), desc.channel_id, lambda number: VdecChannel(desc, number))


def _check_sides(picture: Picture) -> None:
    sides = picture.width, picture.height, picture.width_stride, picture.height_stride
    text = f"width, height and strides of the output are {sides}; all must be set, or none"
    rules.insist(all(sides) or not any(sides), text)


def send(
    desc: VdecChannelDesc,
    stream: tuple[int, StreamDesc],
    pic: tuple[int, PicDesc | None],
    user_data: Any,
    skipped: bool,
) -> None:
    """Send a packet, descriptions with their handles. What the packet holds is copied before this returns."""
    if desc.callback is None:
        raise Raise(RuntimeError("no callback was set: call vdec_set_channel_desc_callback before sending"))
    channel = desc.opened()
    memory = process().memory
    handle, stream_desc = stream
    eos = bool(stream_desc.eos)
    if not stream_desc.size and not eos:
        raise NpuError(
            codes.INVALID_PARAM, "the packet is empty (size 0)", "only the end of a stream may be: set eos to 1"
        )
    packet = Packet(handle, pic[0], user_data, desc.callback, stream_desc, pic[1])
    if stream_desc.size:
        packet.data = memory.read(stream_desc.data, stream_desc.size)
    if pic[1] is not None:
        packet.picture = pic[1].picture()
    elif stream_desc.size and not skipped:
        raise NpuError(
            codes.INVALID_PARAM,
            "the picture description is null (0)",
            "use vdec_send_skipped_frame when none is wanted",
        )
    if packet.picture is not None and packet.data:
        memory.reach(packet.picture.address, 1, True)
        rules.check_memory("vdec", "in", stream_desc.data)
        _check_sides(packet.picture)
        if packet.picture.width and packet.picture.width_stride and packet.picture.format:
            rules.check("vdec", "out", packet.picture)  # what is known now is told now
    channel.send(packet, eos)
