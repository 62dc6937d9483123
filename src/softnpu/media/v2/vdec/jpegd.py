"""JPEG in a decode channel of `acl.himpi`, and what its headers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softnpu import constants as c
from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.codecs.jpeg.decode import CHIP_FORMATS
from softnpu.media.pixels.formats import BGR_888, RGB_888, UNKNOWN, PixelFormat, is_known, pixel_format
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.pngd import png_info
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.structs import image
from softnpu.media.v2.sys.system import need_system
from softnpu.media.v2.vdec.frames import FAILED, Engine, Frame, Packet, output
from softnpu.runtime.process import process

if TYPE_CHECKING:
    from softnpu.media.codecs.jpeg.header import JpegInfo

ALIGN_DOWN, ALIGN_UP, DOWN_COMPAT = range(3)
_RAW = {"444": 0, "422": 1, "420": 2, "440": 3, "400": 4, "411": 5}
_OUTPUTS = {sampling: (*formats, RGB_888, BGR_888) for sampling, formats in CHIP_FORMATS.items()}
_WRITTEN = frozenset(value for row in _OUTPUTS.values() for value in row)


class JpegEngine(Engine):
    """Each packet is a file; frames come in the order of the packets."""

    def decode(self, packet: Packet) -> list[Frame]:
        from softnpu.media.codecs.jpeg import header

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
        from softnpu.media.codecs.jpeg import decode

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
        if form.value in _OUTPUTS.get(info.sampling, ()):
            return
        text = f"JPEGD gives no {form.name} for a picture with sub-sampling {info.sampling}"
        if rules.strict():
            raise NpuError(codes.FEATURE_UNSUPPORTED, text, f"use one of the formats {_OUTPUTS[info.sampling]}")
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


# ---- headers ---------------------------------------------------------------------------------------------------------


def output_bytes(width: int, height: int, value: int) -> int:
    """Bytes of an output picture, 0 for a format that JPEGD does not write."""
    from softnpu.media.codecs.jpeg.decode import output_strides

    if value not in _WRITTEN or not width or not height:
        return 0
    form = pixel_format(value)
    return form.size(*output_strides((width, height), form, rules.family()))


def _jpeg(stream: Fields) -> JpegInfo:
    from softnpu.media.codecs.jpeg import header

    info = header.parse(_data(stream))
    if reason := header.refused(info, rules.strict()):
        raise himpi_error(
            "vdec", "NOT_SUPPORT", f"JPEGD cannot take this file: {reason}", "use a baseline JPEG with 4:4:4 to 4:2:0"
        )
    return info


def _data(stream: Fields) -> bytes:
    need_system("vdec")
    if not stream.addr or not stream.len:
        raise NpuError(
            codes.INVALID_PARAM, f"the stream has addr {stream.addr:#x} and len {stream.len}", "pass the file in memory"
        )
    return process().memory.snapshot(stream.addr, stream.len)


def image_info(payload: int, stream: Fields) -> Fields:
    """`dvpp_get_image_info`: size, and strides and bytes of the output in the format of the file.

    The size is that of the picture as it is shown, after the orientation in the file: with it the program allocates and
    describes the output.
    """
    if payload == c.HI_PT_PNG:
        return png_info(_data(stream))
    if payload != c.HI_PT_JPEG:
        raise himpi_error(
            "vdec", "NOT_SUPPORT", f"payload type {payload} has no image header", "use HI_PT_JPEG or HI_PT_PNG"
        )
    from softnpu.media.codecs.jpeg.decode import native_format, output_strides

    info = _jpeg(stream)
    form = pixel_format(native_format(info))
    return image(info.shown, output_strides(info, form, rules.family()), form, _RAW[info.sampling])


def output_info(stream: Fields, value: int) -> Fields:
    """`vdec_get_jpegd_output_info`: what the output is like in a chosen format."""
    from softnpu.media.codecs.jpeg.decode import native_format, output_strides

    info = _jpeg(stream)
    if value == UNKNOWN:
        value = native_format(info)
    if not is_known(value) or (rules.strict() and value not in _OUTPUTS[info.sampling]):
        raise himpi_error(
            "vdec",
            "NOT_SUPPORT",
            f"JPEGD writes no pixel format {value} for sub-sampling {info.sampling}",
            f"use HI_PIXEL_FORMAT_UNKNOWN or one of {_OUTPUTS[info.sampling]}",
        )
    form = pixel_format(value)
    size = rounded(form, *info.shown, ALIGN_DOWN)
    return image(size, output_strides(info, form, rules.family()), form, value)
