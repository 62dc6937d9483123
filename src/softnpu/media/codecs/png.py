"""PNG files: header and decoding. The frame of the file is checked here, the pixels are decoded by OpenCV."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.media import doors
from softnpu.media.codecs.jpeg.header import as_bytes
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.csc import matrix
from softnpu.media.pixels.formats import BGR_888, RGB_888, PixelFormat, pixel_format
from softnpu.media.pixels.picture import Pixels

GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
RGBA_8888, BGRA_8888 = 16, 17
MAX_SIDE = 16384
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGB_ALPHA: (8, 16)}
_COMPONENTS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}
# Others say nothing about the pixels here: colour profiles, texts, times, a transparent colour, animation.
_NEEDED = frozenset((b"IHDR", b"PLTE", b"IDAT", b"IEND"))


@dataclass
class PngInfo:
    """What the header of a file says."""

    width: int
    height: int
    colour_type: int
    depth: int
    interlaced: bool

    @property
    def alpha(self) -> bool:
        """Whether each pixel has its own transparency."""
        return self.colour_type in (GREY_ALPHA, RGB_ALPHA)

    @property
    def components(self) -> int:
        """Values of a pixel in the file."""
        return _COMPONENTS[self.colour_type]


def parse(data: object) -> PngInfo:
    """The header of a file in memory."""
    view = as_bytes(data)
    if bytes(view[:8]) != _SIGNATURE:
        raise _broken("it does not begin with the signature of PNG")
    kind, start, end = next(_chunks(view))
    if kind != b"IHDR" or end - start != 13:
        raise _broken(f"it begins with a chunk {kind!r} of {end - start} bytes, not with its header")
    width, height, depth, colour, compression, filtering, interlace = struct.unpack_from(">IIBBBBB", view, start)
    if depth not in _DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
        raise _broken(
            f"its header says colour type {colour} with {depth} bits, compression {compression}, filter {filtering}, interlace {interlace}"
        )
    if not (width and height):
        raise _broken(f"it says {width}x{height}")
    return PngInfo(width, height, colour, depth, bool(interlace))


def refused(info: PngInfo) -> str | None:
    """Why this file cannot be decoded, or None."""
    if info.depth == 16:
        return "its samples have 16 bits"
    if max(info.width, info.height) > MAX_SIDE:
        return f"it is {info.width}x{info.height}, larger than {MAX_SIDE}"
    return None


def outputs(info: PngInfo) -> tuple[int, ...]:
    """The formats in which the chips give this file, the one for PIXEL_FORMAT_UNKNOWN first. Others are decoded here too."""
    return (RGBA_8888, RGB_888) if info.alpha else (RGB_888,)


def output_strides(size: tuple[int, int], form: PixelFormat | int) -> tuple[int, int]:
    """Width and height stride that the decoder writes."""
    form = pixel_format(form) if isinstance(form, int) else form
    return align_up(size[0], 128) * form.pixel_bytes, align_up(size[1], 16)


def decode(data: object, info: PngInfo, out: Pixels) -> None:
    """Decode a file into `out`. Alpha is dropped, or 255, where only one of the two has it."""
    reason = refused(info)
    if reason:
        raise NpuError(
            codes.INVALID_PARAM, f"the PNG decoder cannot take this file: {reason}", "save it with 8 bits per sample"
        )
    if (out.width, out.height) != (info.width, info.height):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the PNG picture is {info.width}x{info.height}, the output picture is described as {out.width}x{out.height}",
            "take the size from the header (get_image_info)",
        )
    alpha = "a" in out.format.channels
    file = _checked(as_bytes(data), alpha)
    convert(_decoded(file, info, alpha), out.format, matrix(0), out)


def _broken(text: str) -> NpuError:
    return NpuError(
        codes.INVALID_PARAM, f"the PNG file is damaged: {text}", "check the file and the size passed with it"
    )


def _chunks(view: memoryview) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of the contents of each chunk whose checksum is right, up to the end chunk."""
    position, kind = len(_SIGNATURE), b""
    while kind != b"IEND":
        if position + 12 > len(view):
            raise _broken(f"it ends after {len(view)} bytes, without its end chunk")
        length = int.from_bytes(view[position : position + 4], "big")
        kind, start = bytes(view[position + 4 : position + 8]), position + 8
        end = start + length
        if end + 4 > len(view):
            raise _broken(f"the chunk {kind!r} at byte {position} has {length} bytes, the file has {len(view)}")
        if zlib.crc32(view[position + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            raise _broken(f"the checksum of the chunk {kind!r} at byte {position} is wrong")
        yield kind, start, end
        position = end + 4


def _checked(view: memoryview, alpha: bool) -> np.ndarray[Any, Any]:
    """The file with no other chunks than those that make the pixels; raises unless it is whole."""
    needed = _NEEDED | {b"tRNS"} if alpha else _NEEDED
    parts: list[memoryview] = [view[: len(_SIGNATURE)]]
    kinds = []
    for kind, start, end in _chunks(view):
        if kind in needed:
            parts.append(view[start - 8 : end + 4])
            kinds.append(kind)
        elif not kind[0] & 0x20:
            raise _broken(f"it has an unknown chunk {kind!r} that a decoder must know")
    if b"IDAT" not in kinds:
        raise _broken("it has no picture data")
    return np.frombuffer(b"".join(parts), np.uint8)


def _decoded(file: np.ndarray[Any, Any], info: PngInfo, alpha: bool) -> Pixels:
    cv2 = doors.cv2()
    try:
        array = cv2.imdecode(file, cv2.IMREAD_UNCHANGED if alpha else cv2.IMREAD_COLOR)
    except cv2.error as error:
        raise _broken(str(error)) from error
    if array is None or array.shape[:2] != (info.height, info.width) or array.dtype != np.uint8:
        raise _broken("its picture data cannot be decoded")
    if array.ndim == 2:
        array = cv2.cvtColor(array, cv2.COLOR_GRAY2BGR)
    form = pixel_format(BGRA_8888 if array.shape[2] == 4 else BGR_888)
    return Pixels(form, [array], info.width, info.height)
