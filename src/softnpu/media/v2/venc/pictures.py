"""Pictures that a program sends to an encode channel of `acl.himpi`: checked and copied at once."""

from __future__ import annotations

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.csc import matrix
from softnpu.media.pixels.formats import NV12, NV21, pixel_format
from softnpu.media.pixels.picture import Picture, Pixels, Region
from softnpu.media.v2.struct import Fields
from softnpu.runtime.memory.memory import Memory

_NO_SIZE = 1 << 40  # a frame has no buffer size; the memory itself is asked
_BYTE = np.dtype(np.uint8)
_GREY = 0x80
_PACKED = (7, 8, 9, 10)


def describe(frame: Fields, engine: str) -> Picture:
    """The picture of a frame info, with the strides that the program left at 0."""
    shown = frame.v_frame
    form = pixel_format(shown.pixel_format)
    picture = Picture(
        shown.virt_addr[0] or shown.phys_addr[0],
        _NO_SIZE,
        shown.width,
        shown.height,
        shown.width_stride[0] or form.row_bytes(shown.width),
        shown.height_stride[0] or shown.height,
        shown.pixel_format,
    )
    if shown.video_format or shown.compress_mode:
        raise NpuError(
            codes.FEATURE_UNSUPPORTED,
            f"the picture has video_format {shown.video_format} and compress_mode {shown.compress_mode}",
            "encode linear pictures without compression (0 and 0)",
        )
    rules.check(engine, "in", picture, version=2)
    return picture


def snapshot(frame: Fields, picture: Picture, memory: Memory, crop: Region | None, grey: bool) -> Pixels:
    """A copy of the picture as the encoders take it: NV12 and NV21 and packed 4:2:2 as they are, all else as NV12."""
    pixels = _with_chroma(frame, picture, memory)
    if crop is not None:
        crop.check_inside(pixels.width, pixels.height, "crop_info")
        pixels = pixels.crop(crop.left, crop.top, crop.width, crop.height)
    if pixels.format.value in (NV12, NV21, *_PACKED):
        copied = pixels.copy()
    else:
        copied = Pixels.empty(pixel_format(NV12), pixels.width, pixels.height)
        convert(pixels, copied.format, matrix(0), copied)
    if grey:
        _take_colour_away(copied)
    return copied


def _with_chroma(frame: Fields, picture: Picture, memory: Memory) -> Pixels:
    """The planes; chroma follows luma unless the program gave it an address of its own."""
    shown = frame.v_frame
    apart = shown.virt_addr[1] or shown.phys_addr[1]
    follows = picture.address + picture.width_stride * picture.height_stride
    if not apart or apart == follows or picture.format not in (NV12, NV21):
        return picture.pixels(memory, False, "input picture")
    luma = Picture(
        picture.address, _NO_SIZE, picture.width, picture.height, picture.width_stride, picture.height_stride, 0
    )
    (plane,) = luma.pixels(memory, False, "input picture").planes
    stride = shown.width_stride[1] or picture.width_stride
    rows, columns = (picture.height + 1) // 2, (picture.width + 1) // 2
    if stride < 2 * columns:
        raise NpuError(
            codes.INVALID_PARAM, f"the chroma stride {stride} does not fit the width {picture.width}", "leave it 0"
        )
    base = memory.view(apart, (stride * (rows - 1) + 2 * columns,), _BYTE)
    chroma = np.ndarray((rows, columns, 2), _BYTE, base, 0, (stride, 2, 1))
    return Pixels(pixel_format(picture.format), [plane, chroma], picture.width, picture.height)


def _take_colour_away(pixels: Pixels) -> None:
    if not pixels.format.packed:
        pixels.planes[1].fill(_GREY)
        return
    first = 0 if pixels.format.channels[0] in "uv" else 1
    pixels.planes[0][..., first::2] = _GREY
