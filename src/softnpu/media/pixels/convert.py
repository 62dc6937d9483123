"""Any pixel format into any other, at the same size.

Channels that only lie elsewhere are moved exactly. Between YUV formats the chroma is repeated or averaged and never takes the
way over RGB. Between YUV and RGB a matrix works on bytes: other types become bytes before it and their own type after it.
"""

from __future__ import annotations

import functools

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media.doors import cv2
from softnpu.media.pixels.chroma import resample
from softnpu.media.pixels.csc import DEFAULT, Csc, matrix
from softnpu.media.pixels.formats import RGB_888, PixelFormat, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import (
    Array,
    apart,
    bands,
    merge,
    put,
    scratch,
    settle,
    single_planes,
    take,
    take_apart,
    transform,
)
from softnpu.media.pixels.values import cast, same_type
from softnpu.media.turbojpeg import to_rgb
from softnpu.spec._generated.pixel_formats import FORMATS

NO_COLOUR = 128
_COLOUR_TYPES = (np.uint8, np.uint16, np.float32)


def convert(src: Pixels, form: PixelFormat, csc: Csc, out: Pixels | None = None, alpha: int = 255) -> Pixels:
    """The picture in another format: written into `out`, else new; the picture itself when it has the format already."""
    if out is None:
        if src.format is form:
            return src
        out = Pixels.empty(form, src.width, src.height)
    _check(src, form, out)
    if not src.width or not src.height:
        return out
    src = apart(src, out)
    if same_layout(src.format, form):
        for source, target in zip(src.planes, out.planes, strict=True):
            cast(source, src.format, target, form)
    elif _chroma_swapped(src.format, form):
        np.copyto(out.planes[0], src.planes[0])
        np.copyto(out.planes[1].view(">u2"), src.planes[1].view("<u2"))
    else:
        for source_band, out_band in bands(src, out):
            _band(source_band, out_band, csc, alpha)
    return out


def _check(src: Pixels, form: PixelFormat, out: Pixels) -> None:
    if out.format is not form or (out.width, out.height) != (src.width, src.height):
        raise NpuError(
            codes.INVALID_PARAM,
            f"a picture of {src.width}x{src.height} cannot become {form.name} in one of {out.width}x{out.height} in {out.format.name}",
            "give the output the format asked for and the size of the input",
        )


def same_layout(first: PixelFormat, second: PixelFormat) -> bool:
    """Whether two formats differ in the type of their values at most."""
    return first.planes == second.planes and first.packed == second.packed


@functools.cache
def in_bytes(form: PixelFormat) -> PixelFormat:
    """The format of the same layout whose values are bytes."""
    if form.is_8bit:
        return form
    return next(other for other in map(pixel_format, FORMATS) if other.is_8bit and same_layout(form, other))


def _chroma_swapped(first: PixelFormat, second: PixelFormat) -> bool:
    """NV12 and NV21 and the like: U and V of bytes the other way round."""
    return (
        first.is_8bit
        and second.is_8bit
        and len(first.planes) == len(second.planes) == 2
        and first.chroma == second.chroma
    )


def _band(src: Pixels, out: Pixels, csc: Csc, alpha: int) -> None:
    same_space, same = src.format.space == out.format.space, same_type(src.format, out.format)
    if same_space and src.format.space == "rgb":
        if same:
            _rearrange(src, out, alpha)
        else:
            _between_types(src, out, alpha)
    elif same_space and same:
        _resample(src, out, alpha)
    else:
        source = _in_scratch("plain", src)
        target = _in_scratch("typed", out)
        if source is not src:
            _cast_planes(src, source)
        _bytes(source, target, csc, alpha)
        if target is not out:
            _cast_planes(target, out)


def _in_scratch(name: str, like: Pixels) -> Pixels:
    """A picture of the same layout in bytes: the one given if it has bytes, else in scratch memory."""
    if like.format.is_8bit:
        return like
    planes = [scratch(f"{name} {index}", plane.shape) for index, plane in enumerate(like.planes)]
    return Pixels(in_bytes(like.format), planes, like.width, like.height)


def _cast_planes(src: Pixels, out: Pixels) -> None:
    for source, target in zip(src.planes, out.planes, strict=True):
        cast(source, src.format, target, out.format)


def _bytes(src: Pixels, out: Pixels, csc: Csc, alpha: int) -> None:
    if src.format.space == out.format.space:
        _resample(src, out, alpha)
    elif src.format.space == "yuv":
        _yuv_to_rgb(src, out, csc, alpha)
    else:
        _rgb_to_yuv(src, out, csc, alpha)


def _rearrange(src: Pixels, out: Pixels, alpha: int) -> None:
    """RGB channels in another order or in other planes, of the same type."""
    code = _colour_code(src.format, out.format, alpha)
    if code is not None and src.planes[0].dtype in _COLOUR_TYPES:
        settle(cv2().cvtColor(src.planes[0], code, dst=out.planes[0]), out.planes[0])
    else:
        put(out, take(src, single_planes(out)), alpha)


def _colour_code(source: PixelFormat, target: PixelFormat, alpha: int) -> int | None:
    """OpenCV's number of a change of order, which is faster than taking apart and putting together; it sets alpha to 255."""
    if (
        len(source.planes) > 1
        or len(target.planes) > 1
        or ("a" in target.channels and "a" not in source.channels and alpha != 255)
    ):
        return None
    return getattr(cv2(), f"COLOR_{source.channels.upper()}2{target.channels.upper()}", None)


def _between_types(src: Pixels, out: Pixels, alpha: int) -> None:
    """RGB channels in another order and of another type: values keep their fractions and their range where both can."""
    room = single_planes(out)
    channels = {}
    for letter, channel in take(src, {}).items():
        if letter in out.format.channels:
            target = room.get(letter)
            if target is None:
                target = scratch(f"typed {letter}", channel.shape, out.planes[0].dtype)
            cast(channel, src.format, target, out.format)
            channels[letter] = target
    put(out, channels, alpha)


def _resample(src: Pixels, out: Pixels, alpha: int) -> None:
    """YUV into YUV: the chroma in the sub-sampling of the output; a grey picture gets chroma without colour."""
    channels = take(src, single_planes(out))
    shape = _chroma_shape(out)
    for letter in "uv":
        if letter not in out.format.channels:
            continue
        if letter in channels:
            channels[letter] = resample(channels[letter], src.format.chroma, out.format.chroma, shape, letter)
        else:
            channels[letter] = _no_colour(shape)
    put(out, channels, alpha)


def _chroma_shape(pixels: Pixels) -> tuple[int, int]:
    across, down = pixels.format.chroma
    return -(-pixels.height // down), -(-pixels.width // across)


def _no_colour(shape: tuple[int, int]) -> Array:
    plane = scratch("no colour", shape)
    plane.fill(NO_COLOUR)
    return plane


def _yuv_to_rgb(src: Pixels, out: Pixels, csc: Csc, alpha: int) -> None:
    shape = (src.height, src.width)
    direct = _is_triple(out.format)
    rgb = out.planes[0] if direct else scratch("rgb", (*shape, 3))
    order = out.format.channels if direct else "rgb"
    if _is_triple(src.format):
        transform(src.planes[0], csc.rgb_from(src.format.channels, order), rgb)
    else:
        _planes_to_rgb(src, rgb, csc, order)
    if not direct:
        _rearrange(Pixels(pixel_format(RGB_888), [rgb], src.width, src.height), out, alpha)


def _is_triple(form: PixelFormat) -> bool:
    """Whether the one plane has the three channels of a matrix side by side."""
    return len(form.planes) == 1 and len(form.channels) == 3


def _planes_to_rgb(src: Pixels, rgb: Array, csc: Csc, order: str) -> None:
    """Chroma repeated to the size of the luma, three channels side by side, one matrix over all."""
    channels = take(src, {})
    if (
        csc is matrix(DEFAULT)
        and src.format.chroma == (2, 2)
        and to_rgb([channels[letter] for letter in "yuv"], rgb, order)
    ):
        return
    shape = (src.height, src.width)
    chroma = [
        resample(channels[letter], src.format.chroma, (1, 1), shape, letter)
        if letter in channels
        else _no_colour(shape)
        for letter in "uv"
    ]
    yuv = scratch("yuv", (*shape, 3))
    merge([channels["y"], *chroma], yuv)
    transform(yuv, csc.rgb_from("yuv", order), rgb)


def _rgb_to_yuv(src: Pixels, out: Pixels, csc: Csc, alpha: int) -> None:
    shape = (src.height, src.width, 3)
    if _is_triple(src.format):
        rgb, order = src.planes[0], src.format.channels
    else:
        rgb, order = scratch("rgb", shape), "rgb"
        _rearrange(src, Pixels(pixel_format(RGB_888), [rgb], src.width, src.height), alpha)
    if _is_triple(out.format):
        transform(rgb, csc.yuv_from(order, out.format.channels), out.planes[0])
        return
    yuv = scratch("yuv", shape)
    transform(rgb, csc.yuv_from(order, "yuv"), yuv)
    channels = take_apart(yuv, "yuv", single_planes(out))
    chroma = _chroma_shape(out)
    for letter in "uv":
        if letter in out.format.channels:
            channels[letter] = resample(channels[letter], (1, 1), out.format.chroma, chroma, letter)
    put(out, channels, alpha)
