"""JPEG and PNG tasks of `acl.media`, and what their headers tell.

The data of a file is looked at when the task runs, since a copy on the same stream may still be on its way when the call is made.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.codecs import png
from softnpu.media.codecs.jpeg import decode, encode, header
from softnpu.media.codecs.jpeg.header import JpegInfo
from softnpu.media.codecs.png import PngInfo
from softnpu.media.pixels.formats import UNKNOWN, YUV_400, PixelFormat, pixel_format
from softnpu.media.pixels.picture import MAX_SIDE, Picture, Pixels
from softnpu.media.v1.channel import ChannelDesc, submit
from softnpu.media.v1.descs import JpegeConfig, PicDesc
from softnpu.runtime.memory.reach import ShortRead
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream

_BYTE = np.dtype(np.uint8)
_CELL = struct.Struct("<I")
_SAMPLINGS = {"444": 0, "422": 1, "420": 2, "400": 3, "440": 4, "411": 5}
_SAMPLING_UNKNOWN = 1000
_PNG_FORMATS = frozenset({12, 13, 14, 15, 16, 17})
_JPEGE_FORMATS = frozenset({0, 1, 2, 7, 8, 9, 10})
_INPUT_ALIGN = 128  # of a file, in strict mode
_MOST_BYTES = (1 << 32) - 1


def _file(address: int, size: int) -> Any:
    """The bytes of a file where they lie; a size beyond the object that the program passed is cut to what is there."""
    _need_size(size)
    memory = process().memory
    try:
        return memory.view(address, (size,), _BYTE)
    except ShortRead as short:
        return memory.view(address, (short.usable,), _BYTE)


def _need_size(size: int) -> None:
    if size == 0:
        raise NpuError(codes.INVALID_PARAM, "the size of the file is 0", "pass the number of its bytes")


# ---- headers ---------------------------------------------------------------------------------------------------------


def jpeg_info(address: int, size: int) -> tuple[int, int, int, int]:
    """Width, height, components and sub-sampling of a JPEG, as they are coded."""
    info = header.parse(_file(address, size))
    return info.width, info.height, info.components, _SAMPLINGS.get(info.sampling, _SAMPLING_UNKNOWN)


def png_info(address: int, size: int) -> tuple[int, int, int]:
    """Width, height and components of a PNG."""
    info = png.parse(_file(address, size))
    return info.width, info.height, info.components


def jpeg_decoded_size(address: int, size: int, form: int) -> int:
    """The bytes that the decoded JPEG takes."""
    info = header.parse(_file(address, size))
    return _fits(_jpeg_output(info, Picture(format=form)))


def png_decoded_size(address: int, size: int, form: int) -> int:
    """The bytes that the decoded PNG takes."""
    return _fits(_png_output(png.parse(_file(address, size)), Picture(format=form)))


def _fits(output: Picture) -> int:
    """The bytes of a picture, if its description can say so many."""
    if output.size > _MOST_BYTES:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the picture of {output.width}x{output.height} would take {output.size} bytes",
            "scale it down before it is saved",
        )
    return output.size


def _completed(described: Picture, form: PixelFormat, size: tuple[int, int], strides: tuple[int, int]) -> Picture:
    """The output of a decoder, with its bytes where the program gave none."""
    output = described.decoded(form, size, strides)
    return replace(output, size=described.size or form.size(output.width_stride, output.height_stride))


def _jpeg_output(info: JpegInfo, described: Picture) -> Picture:
    form = pixel_format(decode.native_format(info) if described.format == UNKNOWN else described.format)
    allowed = decode.CHIP_FORMATS.get(info.sampling, ())
    if not rules.row("jpegd").get("yuv400"):
        allowed = tuple(value for value in allowed if value != YUV_400)
    if rules.strict() and form.value not in allowed:
        raise NpuError(
            codes.INVALID_PARAM,
            f"JPEGD does not decode a {info.sampling} file to {form.name} ({form.value})",
            f"use one of the formats {allowed}, or 10000 (as the file is)",
        )
    strides = decode.output_strides(info, form, rules.family())
    output = _completed(described, form, info.shown, strides)
    fits = output.width_stride >= form.row_bytes(output.width) and output.height_stride >= output.height
    if fits and form.size(output.width_stride, output.height_stride) <= output.size:
        return output
    return _with_chip_strides(output, form, strides, info)


def _with_chip_strides(output: Picture, form: PixelFormat, strides: tuple[int, int], info: JpegInfo) -> Picture:
    """The output whose strides do not go with the picture: the chip's, if the memory has room for those.

    Programs take the size of a file from its header, which does not know that the picture is shown turned (EXIF); and some
    calculate strides with another alignment than sizes.
    """
    if form.size(*strides) <= output.size:
        return replace(output, width_stride=strides[0], height_stride=strides[1])
    if info.shown != (info.width, info.height):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the output is too small: the file is {info.width}x{info.height}, but is shown turned (EXIF orientation {info.orientation}) and becomes {output.width}x{output.height}",
            f"allocate {form.size(*strides)} bytes, or what dvpp_jpeg_predict_dec_size says",
        )
    return output


def _png_output(info: PngInfo, described: Picture) -> Picture:
    _check_png_format(described.format)
    form = pixel_format(png.outputs(info)[0] if described.format == UNKNOWN else described.format)
    if rules.strict() and form.value not in png.outputs(info):
        raise NpuError(
            codes.INVALID_PARAM,
            f"PNGD does not decode a file of {info.components} components to {form.name} ({form.value})",
            f"use one of the formats {png.outputs(info)}, or 10000 (as the file is)",
        )
    size = info.width, info.height
    return _completed(described, form, size, png.output_strides(size, form))


def _check_png_format(value: int) -> None:
    if value != UNKNOWN and value not in _PNG_FORMATS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"a PNG cannot be decoded to pixel format {value}",
            "use 12 (RGB_888), 16 (RGBA_8888) or 10000 (as the file is)",
        )


# ---- decoding --------------------------------------------------------------------------------------------------------


def _decode(
    channel: ChannelDesc,
    stream: Stream,
    name: str,
    data: tuple[int, int],
    desc: PicDesc,
    engine: str,
    decoder: Callable[[bytes, Picture], Picture],
) -> None:
    """Queue a decoder: it gets the bytes of the file and the output as described, and returns the output as it is."""
    opened = channel.need(engine, stream.context.device)
    memory = process().memory
    address, size = data
    _need_size(size)
    memory.reach(address, size, False)
    described = desc.picture()
    if described.format != UNKNOWN:
        pixel_format(described.format)
    memory.reach(described.address, max(described.size, 1), True)
    rules.check_memory(engine, "in", address, align=_INPUT_ALIGN)
    if described.width and described.height and described.format != UNKNOWN:  # what is known now is told now
        rules.check(engine, "out", _told(described))

    def work() -> None:
        desc.ret_code = 1
        _report(desc, decoder(process().memory.read(address, size), described))
        desc.ret_code = 0

    submit(opened, stream, name, work, inline=False)


def _told(output: Picture) -> Picture:
    """What the program is told of a picture: a side that its format cannot have odd is without its last line."""
    even = pixel_format(output.format).even
    width = output.width - (output.width & 1 if "w" in even else 0)
    return replace(output, width=width, height=output.height - (output.height & 1 if "h" in even else 0))


def _report(desc: PicDesc, output: Picture) -> None:
    """Tell the program what came out."""
    told = _told(output)
    desc.width, desc.height, desc.format = told.width, told.height, told.format
    desc.size = desc.size or output.size
    desc.width_stride = desc.width_stride or output.width_stride
    desc.height_stride = desc.height_stride or output.height_stride


def _output(output: Picture) -> Pixels:
    return output.pixels(process().memory, True, "output picture")


def _roomy(output: Picture) -> Picture:
    """The same with odd sides one larger where its strides have room: the decoder writes whole units of pixels there."""
    form = pixel_format(output.format)
    width, height = output.width + (output.width & 1), output.height + (output.height & 1)
    room = form.row_bytes(width) <= output.width_stride and height <= output.height_stride
    fits = form.size(output.width_stride, output.height_stride) <= output.size
    return replace(output, width=width, height=height) if form.chroma == (2, 2) and room and fits else output


def decode_jpeg(channel: ChannelDesc, stream: Stream, name: str, data: tuple[int, int], desc: PicDesc) -> None:
    """Queue the decoding of a JPEG."""

    def decoder(content: bytes, described: Picture) -> Picture:
        info = header.parse(content)
        why = header.refused(info, rules.strict())
        if why is not None:
            raise decode.refusal(why)
        output = _jpeg_output(info, described)
        rules.check("jpegd", "out", _told(output))
        decode.decode(content, info, _output(_roomy(output)))
        return output

    _decode(channel, stream, name, data, desc, "jpegd", decoder)


def decode_png(channel: ChannelDesc, stream: Stream, name: str, data: tuple[int, int], desc: PicDesc) -> None:
    """Queue the decoding of a PNG."""
    _check_png_format(desc.format)

    def decoder(content: bytes, described: Picture) -> Picture:
        info = png.parse(content)
        output = _png_output(info, described)
        rules.check("pngd", "out", output)
        png.decode(content, info, _output(output))
        return output

    _decode(channel, stream, name, data, desc, "pngd", decoder)


# ---- encoding --------------------------------------------------------------------------------------------------------


def _check_jpege(picture: Picture) -> None:
    if picture.format not in _JPEGE_FORMATS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"JPEGE does not take pixel format {picture.format}",
            "convert the picture to NV12 (1), NV21 (2) or one of the packed 4:2:2 formats (7 to 10) first",
        )
    rules.check("jpege", "in", picture)


def jpeg_encoded_size(desc: PicDesc) -> int:
    """As many bytes as the JPEG of this picture can take at most."""
    picture = desc.picture()
    _check_jpege(picture)
    if not (0 < picture.width <= MAX_SIDE and 0 < picture.height <= MAX_SIDE):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the picture is {picture.width}x{picture.height}",
            f"give it a width and a height from 1 to {MAX_SIDE}",
        )
    return encode.bound(picture.width, picture.height, pixel_format(picture.format))


def encode_jpeg(
    channel: ChannelDesc,
    stream: Stream,
    name: str,
    desc: PicDesc,
    out: int,
    cell: int,
    config: JpegeConfig | None,
) -> None:
    """Queue the encoding of a picture. `cell` is a uint32: the room at `out`, and afterwards the bytes of the JPEG."""
    opened = channel.need("jpege", stream.context.device)
    picture, quality = desc.picture(), (config or JpegeConfig()).quality
    _check_jpege(picture)
    if config is not None and config.level == 0 and rules.strict() and rules.family() != "310":
        raise NpuError(codes.INVALID_PARAM, "the level is 0, which only Ascend310 takes", "use 1 to 100")
    memory = process().memory
    picture.pixels(memory, False, "input picture")
    memory.reach(cell, _CELL.size, True)
    room = _CELL.unpack(memory.read(cell, _CELL.size))[0]
    memory.reach(out, max(room, 1), True)

    def work() -> None:
        memory = process().memory
        data = encode.encode(picture.pixels(memory, False, "input picture"), quality)
        if len(data) > room:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the JPEG has {len(data)} bytes, the output has room for {room}",
                "allocate what dvpp_jpeg_predict_enc_size says, and put that number where size points to",
            )
        memory.store(out, data)
        memory.store(cell, _CELL.pack(len(data)))

    submit(opened, stream, name, work, inline=False)
