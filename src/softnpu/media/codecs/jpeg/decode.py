"""JPEG decoding: planes as the file has them, turned as its orientation says, into a picture of any documented format."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.media import doors, turbojpeg
from softnpu.media.codecs.jpeg import turbo
from softnpu.media.codecs.jpeg.header import JpegInfo, as_bytes, refused
from softnpu.media.codecs.video.frames import plane_view
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.csc import matrix
from softnpu.media.pixels.formats import (
    NV21,
    YUV_400,
    YUV_PLANAR_420,
    YUV_PLANAR_422,
    YUV_PLANAR_440,
    YUV_PLANAR_444,
    PixelFormat,
    pixel_format,
)
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import merge

Plane = np.ndarray[Any, Any]

# What the chips decode a file to, by its sub-sampling; here anything can be had.
CHIP_FORMATS = {"444": (5, 6, 1, 2), "422": (3, 4, 1, 2), "420": (1, 2), "400": (0, 1, 2), "440": (1000, 1001, 1, 2)}
# V before U, as the chips give a picture whose format the program leaves to them; grey has chroma of one value there.
_NATIVE = {"444": 6, "422": 4, "420": NV21, "440": 1001, "400": NV21}
_PLANAR = {
    "444": YUV_PLANAR_444,
    "422": YUV_PLANAR_422,
    "420": YUV_PLANAR_420,
    "440": YUV_PLANAR_440,
    "400": YUV_400,
}
_TURNED = {"422": "440", "440": "422"}  # what a sub-sampling is after a quarter turn
_RGB_PLANAR = 69
_NO_COLOUR = 0x80
_WIDE = ("310", "910")  # the chips whose decoder aligns to 128 bytes
_thread = threading.local()


def native_format(info: JpegInfo) -> int:
    """The pixel format of a picture for which the program asked for PIXEL_FORMAT_UNKNOWN."""
    reason = refused(info, False)
    if reason:
        raise refusal(reason)
    return _NATIVE[info.sampling]


def output_strides(info: JpegInfo | tuple[int, int], form: PixelFormat | int, family: str) -> tuple[int, int]:
    """Width and height stride that the decoder of a chip family writes."""
    width, height = info.shown if isinstance(info, JpegInfo) else info
    form = pixel_format(form) if isinstance(form, int) else form
    return align_up(width, 128 if family in _WIDE else 64) * form.pixel_bytes, align_up(height, 16)


def decode(data: object, info: JpegInfo, out: Pixels) -> None:
    """Decode a file into `out`, which has the shown size. An odd side may be one less or one more there: cut, or continued."""
    reason = refused(info, False)
    if reason:
        raise refusal(reason)
    _check_size(info.shown, out)
    source = np.frombuffer(as_bytes(data), np.uint8)
    if not info.complete:  # the decoders take a missing end marker for missing data
        source = np.concatenate([source, np.frombuffer(b"\xff\xd9", np.uint8)])
    form = _planar(info)
    straight = info.orientation == 1 and _same_layout(form, out.format)
    planes = _planes(source, info, _wanted(out) if straight else (None, None, None))
    rows, columns = planes[0].shape  # of the output, when the decoder wrote there
    pixels = Pixels(form, planes, columns, rows)
    if (columns, rows) != (out.width, out.height) or not straight:
        pixels = _fit(_turn(pixels, info), out.width, out.height)
    _deliver(pixels, out)


def refusal(reason: str) -> NpuError:
    """The error of a file that no chip decodes."""
    return NpuError(
        codes.INVALID_PARAM,
        f"the JPEG decoder cannot take this file: {reason}",
        "use a baseline JPEG with sub-sampling 4:4:4, 4:2:2, 4:2:0, 4:4:0 or grey",
    )


def _check_size(shown: tuple[int, int], out: Pixels) -> None:
    for side, described, direction in zip(shown, (out.width, out.height), ("wide", "high"), strict=True):
        if described != side and not (side & 1 and abs(described - side) == 1):
            raise NpuError(
                codes.INVALID_PARAM,
                f"the JPEG picture is {side} pixels {direction}, the output picture is described with {described}",
                "take the size from the header (get_image_info); width and height swap with the orientations 5 to 8",
            )


def _wanted(out: Pixels) -> list[Plane | None]:
    """The planes of the output into which the decoder can write by itself: those of one channel."""
    alone = {spec.channels: plane for spec, plane in zip(out.format.planes, out.planes, strict=True)}
    return [alone.get(channel) for channel in "yuv"]


def _planes(source: Plane, info: JpegInfo, wanted: Sequence[Plane | None]) -> list[Plane]:
    library = turbojpeg.library()
    return turbo.decode(library, source, info, wanted) if library else _by_ffmpeg(source, info)


def _by_ffmpeg(source: Plane, info: JpegInfo) -> list[Plane]:
    """The planes of a picture, in the memory of FFmpeg, for systems without libturbojpeg.

    FFmpeg does not notice that the last unit of blocks is cut off, so a file without its end is looked at by libjpeg too.
    """
    av = doors.av()
    decoder = getattr(_thread, "decoder", None)
    if decoder is None:
        decoder = av.CodecContext.create("mjpeg", "r")
        decoder.thread_count = 1
        decoder.options = {"err_detect": "explode"}
    _thread.decoder = None  # one that failed is not used again
    try:
        frames = decoder.decode(av.Packet(source))
        if not info.complete:
            doors.simplejpeg().decode_jpeg(source, "GRAY", strict=True)
    except (av.FFmpegError, ValueError) as error:
        raise turbo.damaged(str(error)) from error
    if len(frames) != 1 or (frames[0].width, frames[0].height) != (info.width, info.height):
        raise turbo.damaged(f"{len(frames)} pictures in the file")
    _thread.decoder = decoder
    return _frame_planes(frames[0], info)


def _frame_planes(frame: Any, info: JpegInfo) -> list[Plane]:
    planes = [plane_view(plane) for plane in frame.planes]
    if info.rgb and frame.format.name.startswith("gbr"):
        planes = [planes[2], planes[0], planes[1]]
    unit_x, unit_y = max(x for x, _ in info.factors), max(y for _, y in info.factors)
    shapes = [(-(-info.height * y // unit_y), -(-info.width * x // unit_x)) for x, y in info.factors]
    if [plane.shape for plane in planes[: len(shapes)]] != shapes:
        raise turbo.damaged(f"its planes are {[plane.shape for plane in planes]} in size, not {shapes}")
    return planes[: len(shapes)]


def _planar(info: JpegInfo) -> PixelFormat:
    """The format of the planes in the file."""
    return pixel_format(_RGB_PLANAR if info.rgb else _PLANAR[info.sampling])


def _turn(pixels: Pixels, info: JpegInfo) -> Pixels:
    """The picture as it is shown."""
    if info.orientation == 1:
        return pixels
    turned = _TURNED.get(info.sampling, info.sampling) if info.orientation >= 5 else info.sampling
    form = pixels.format if info.rgb else pixel_format(_PLANAR[turned])
    return Pixels(form, [_turn_plane(plane, info.orientation) for plane in pixels.planes], *info.shown)


def _turn_plane(plane: Plane, orientation: int) -> Plane:
    cv2 = doors.cv2()
    if orientation >= 5:
        plane = cv2.transpose(plane)
    flip = {2: 1, 3: -1, 4: 0, 5: None, 6: 1, 7: -1, 8: 0}[orientation]
    turned: Plane = plane if flip is None else cv2.flip(plane, flip)
    return turned


def _fit(pixels: Pixels, width: int, height: int) -> Pixels:
    """Cut to the size, or repeat the last column and row."""
    pixels = pixels.crop(0, 0, min(width, pixels.width), min(height, pixels.height))
    if (pixels.width, pixels.height) == (width, height):
        return pixels
    planes = []
    for spec, plane in zip(pixels.format.planes, pixels.planes, strict=True):
        down, right = -(-height // spec.y) - plane.shape[0], -(-width // spec.x) - plane.shape[1]
        planes.append(np.pad(plane, ((0, down), (0, right)), "edge"))
    return Pixels(pixels.format, planes, width, height)


def _deliver(pixels: Pixels, out: Pixels) -> None:
    if not _same_layout(pixels.format, out.format):
        convert(pixels, out.format, matrix(0), out)
        return
    channels = dict(zip(pixels.format.channels, pixels.planes, strict=True))
    for spec, plane in zip(out.format.planes, out.planes, strict=True):
        if spec.channels[0] not in channels:
            plane.fill(_NO_COLOUR)
        elif len(spec.channels) == 2:
            merge([channels[channel] for channel in spec.channels], plane)
        elif channels[spec.channels] is not plane:
            np.copyto(plane, channels[spec.channels])


def _same_layout(have: PixelFormat, want: PixelFormat) -> bool:
    """Whether the planes need only be put in their places: same sub-sampling, or one of the two is grey."""
    if want.space != "yuv" or not want.is_8bit or want.packed or want.planes[0].channels != "y" or have.space != "yuv":
        return False
    return YUV_400 in (have.value, want.value) or have.chroma == want.chroma
