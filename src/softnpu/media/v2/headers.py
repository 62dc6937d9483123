"""What the headers of JPEG and PNG files say, for the calls of `acl.himpi` that need no channel."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.codecs.jpeg import header
from softnpu.media.codecs.jpeg.decode import native_format, output_strides
from softnpu.media.codecs.jpeg.header import JpegInfo
from softnpu.media.pixels.formats import UNKNOWN, is_known, pixel_format
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.pngd import png_info
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.structs import image
from softnpu.media.v2.sys.system import need_system
from softnpu.media.v2.vdec.jpegd import ALIGN_DOWN, OUTPUTS, rounded
from softnpu.runtime.process import process

_RAW = {"444": 0, "422": 1, "420": 2, "440": 3, "400": 4, "411": 5}


def _jpeg(stream: Fields) -> JpegInfo:
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
    info = _jpeg(stream)
    form = pixel_format(native_format(info))
    return image(info.shown, output_strides(info, form, rules.family()), form, _RAW[info.sampling])


def output_info(stream: Fields, value: int) -> Fields:
    """`vdec_get_jpegd_output_info`: what the output is like in a chosen format."""
    info = _jpeg(stream)
    if value == UNKNOWN:
        value = native_format(info)
    if not is_known(value) or (rules.strict() and value not in OUTPUTS[info.sampling]):
        raise himpi_error(
            "vdec",
            "NOT_SUPPORT",
            f"JPEGD writes no pixel format {value} for sub-sampling {info.sampling}",
            f"use HI_PIXEL_FORMAT_UNKNOWN or one of {OUTPUTS[info.sampling]}",
        )
    form = pixel_format(value)
    size = rounded(form, *info.shown, ALIGN_DOWN)
    return image(size, output_strides(info, form, rules.family()), form, value)
