"""H.264 and H.265 in a decode channel of `acl.himpi`, and the sizes that a program asks for."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.errors import NpuError
from softnpu.media import rules
from softnpu.media.codecs.video.decoder import Decoded, VideoDecoder
from softnpu.media.codecs.video.deliver import deliver
from softnpu.media.pixels.formats import is_known, pixel_format
from softnpu.media.pixels.picture import Picture, Pixels
from softnpu.media.v2.checks import CODECS
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.vdec.frames import FAILED, NO_PICTURE, Engine, Frame, Host, Packet, output
from softnpu.media.v2.vdec.jpegd import output_bytes

_TEN_BITS = (c.HI_DATA_BIT_WIDTH_10, 10)  # the guide prints the number of bits
_HEADER = 4096


class VideoEngine(Engine):
    """A video decoder; frames come in the order of their display, or of their packets with `out_order` 1."""

    def __init__(self, channel: Host) -> None:
        super().__init__(channel)
        video = channel.param.video_param
        self._decoder = VideoDecoder(CODECS[channel.attr.type], immediate=video.out_order == c.HI_VIDEO_OUT_ORDER_DEC)
        self._skipped = {
            c.HI_VIDEO_DEC_MODE_IPB: (),
            c.HI_VIDEO_DEC_MODE_IP: (c.HI_VDEC_FRAME_TYPE_B,),
            c.HI_VIDEO_DEC_MODE_I: (c.HI_VDEC_FRAME_TYPE_P, c.HI_VDEC_FRAME_TYPE_B),
        }[video.dec_mode]

    def decode(self, packet: Packet) -> list[Frame]:
        return [self._frame(decoded) for decoded in self._decoder.send(packet.data, packet)]

    def flush(self) -> list[Frame]:
        return [self._frame(decoded) for decoded in self._decoder.flush()]

    def close(self) -> None:
        self._decoder.close()

    def _frame(self, decoded: Decoded) -> Frame:
        packet: Packet = decoded.token  # type: ignore[assignment]
        frame = Frame(packet, frame_type=decoded.frame_type)
        frame.picture.address = packet.picture.vir_addr
        if decoded.error is not None:
            frame.flag, frame.reason, frame.trouble = FAILED, decoded.error, "format_err"
        elif decoded.pixels is None or decoded.no_picture or decoded.frame_type in self._skipped:
            frame.flag = NO_PICTURE
        else:
            frame.stream_size = decoded.pixels.width, decoded.pixels.height
            frame.bits = decoded.pixels.format.bits
            try:
                self._check_size(decoded.pixels, frame)
                if packet.stream.need_display and frame.flag != FAILED:
                    frame.picture = self._write(packet, decoded.pixels)
            except NpuError as error:
                frame.flag, frame.reason, frame.trouble = FAILED, error.text, "set_pic_buf_size_err"
        return frame

    def _check_size(self, pixels: Pixels, frame: Frame) -> None:
        """The chip decodes nothing that is larger than the channel was made for."""
        attr = self.channel.attr
        if pixels.width <= attr.pic_width and pixels.height <= attr.pic_height:
            return
        text = (
            f"the channel was made for {attr.pic_width}x{attr.pic_height}, the video is {pixels.width}x{pixels.height}"
        )
        if rules.strict():
            frame.flag, frame.reason, frame.trouble = FAILED, text, "set_pic_size_err"
        else:
            self.channel.tell(text)

    def _write(self, packet: Packet, pixels: Pixels) -> Picture:
        asked = output(packet)
        size = asked.width or pixels.width, asked.height or pixels.height
        picture = asked.decoded(pixel_format(asked.format), size, (0, 0)).with_strides(*rules.row_alignment("vdec"))
        rules.check("vdec", "out", picture, stream=(pixels.width, pixels.height), version=2)
        rules.check_codec("vdec", self._decoder.codec, pixels.width, pixels.height)
        out = picture.pixels(self.channel.memory, True, "output picture")
        deliver(pixels, out, self.channel.csc)
        return picture


# ---- sizes that the program asks for ---------------------------------------------------------------------------------


def pic_buf_size(payload: int, attr: Fields) -> int:
    """`vdec_get_pic_buf_size`: bytes of a decoded picture inside the decoder (video), or of the output (JPEG); 0 when unknown.

    The chip's own formula is not published; this is a safe one.
    """
    if payload == c.HI_PT_JPEG:
        return output_bytes(attr.width, attr.height, attr.pixel_format)
    if payload not in CODECS or not is_known(attr.pixel_format):
        return 0
    size = _blocks(attr.width) * _blocks(attr.height) * 64 * 64 * 3 // 2
    if attr.bit_width in _TEN_BITS:
        size = size * 5 // 4
    return size + _HEADER if size else 0


def tmv_buf_size(payload: int, width: int, height: int) -> int:
    """`vdec_get_tmv_buf_size`: 16 bytes for each 16x16 block; 0 when the payload is no video."""
    if payload not in CODECS:
        return 0
    return _blocks(width) * _blocks(height) * 16 * 16


def _blocks(side: int) -> int:
    return -(-side // 64)
