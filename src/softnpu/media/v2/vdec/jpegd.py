"""JPEG in a decode channel of `acl.himpi`: which formats it gives, and how large its pictures are."""

from __future__ import annotations

from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.codecs.jpeg import decode, header
from softnpu.media.codecs.jpeg.decode import CHIP_FORMATS
from softnpu.media.codecs.jpeg.header import JpegInfo
from softnpu.media.pixels.formats import BGR_888, RGB_888, UNKNOWN, PixelFormat, pixel_format
from softnpu.media.v2.vdec.frames import FAILED, Engine, Frame, Packet, output

ALIGN_DOWN, ALIGN_UP, DOWN_COMPAT = range(3)
# What a file of each sub-sampling can become on a chip.
OUTPUTS = {sampling: (*formats, RGB_888, BGR_888) for sampling, formats in CHIP_FORMATS.items()}
_WRITTEN = frozenset(value for row in OUTPUTS.values() for value in row)


class JpegEngine(Engine):
    """Each packet is a file; frames come in the order of the packets."""

    def decode(self, packet: Packet) -> list[Frame]:
        frame = Frame(packet)
        frame.picture.address = packet.picture.vir_addr
        try:
            info = header.parse(packet.data)
            frame.stream_size = info.shown
            if reason := header.refused(info, rules.strict()):
                frame.flag, frame.reason, frame.trouble = FAILED, reason, "stream_unsupport"
            elif packet.stream.need_display:
                self._write(packet, info, frame)
        except NpuError as error:
            frame.flag, frame.reason, frame.trouble = FAILED, error.text, frame.trouble or "format_err"
        return [frame]

    def flush(self) -> list[Frame]:
        return []  # each file was decoded at once

    def close(self) -> None:
        """It holds nothing."""

    def _write(self, packet: Packet, info: JpegInfo, frame: Frame) -> None:
        asked = output(packet)
        form = pixel_format(decode.native_format(info) if asked.format == UNKNOWN else asked.format)
        self._check_format(info, form)
        width, height = rounded(form, *info.shown, self.channel.precision)
        if (asked.width, asked.height) not in ((0, 0), (width, height), info.shown):
            self.channel.tell(
                f"JPEGD does not scale: {asked.width}x{asked.height} was asked for, the picture is {width}x{height}"
            )
        picture = asked.decoded(form, (width, height), decode.output_strides(info, form, rules.family()))
        frame.trouble = "set_pic_buf_size_err"
        rules.check("jpegd", "out", picture, version=2)
        out = picture.pixels(self.channel.memory, True, "output picture")
        frame.trouble = ""
        decode.decode(packet.data, info, out)
        frame.picture = picture

    def _check_format(self, info: JpegInfo, form: PixelFormat) -> None:
        """The chip turns each sub-sampling into a few formats only."""
        if form.value in OUTPUTS.get(info.sampling, ()):
            return
        text = f"JPEGD gives no {form.name} for a picture with sub-sampling {info.sampling}"
        if rules.strict():
            raise NpuError(codes.FEATURE_UNSUPPORTED, text, f"use one of the formats {OUTPUTS[info.sampling]}")
        self.channel.tell(text)


def rounded(form: PixelFormat, width: int, height: int, mode: int) -> tuple[int, int]:
    """The size of the output for a picture with odd sides: those sides become even along which chroma is sub-sampled."""
    x, y = form.chroma
    if mode == DOWN_COMPAT and max(x, y) > 1:
        x = y = 2
    step = 1 if mode == ALIGN_UP else -1
    return (
        width + step if x == 2 and width & 1 and width > 1 else width,
        height + step if y == 2 and height & 1 and height > 1 else height,
    )


def output_bytes(width: int, height: int, value: int) -> int:
    """Bytes of an output picture, 0 for a format that JPEGD does not write."""
    if value not in _WRITTEN or not width or not height:
        return 0
    form = pixel_format(value)
    return form.size(*decode.output_strides((width, height), form, rules.family()))
