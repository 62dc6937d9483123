"""Between FFmpeg's frames and `Pixels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media import doors
from softnpu.media.pixels.formats import NV12, NV21, YUV_400, YUV_PLANAR_420, pixel_format
from softnpu.media.pixels.picture import Pixels

YUV_420_10BIT = 18
_TEN_BITS_UP = 6  # ten bits stand at the top of their 16, as in P010
_PLANAR = {"yuv420p": YUV_PLANAR_420, "yuvj420p": YUV_PLANAR_420, "gray": YUV_400}


def plane_view(plane: Any, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
    """The pixels of a frame's plane, without those that only align. The array keeps the frame alive."""
    rows = np.frombuffer(plane, dtype).reshape(plane.height, plane.line_size // np.dtype(dtype).itemsize)
    return rows[:, : plane.width]


def pixels_of(frame: Any) -> Pixels | None:
    """A decoded frame as pixels: 8-bit planes are views of the frame, 10 bits are interleaved into format 18.

    None for what the engine does not decode (4:2:2, 4:4:4, other depths).
    """
    name = frame.format.name
    if name in _PLANAR:
        views = [plane_view(plane) for plane in frame.planes]
        for view in views:
            view.flags.writeable = False  # the decoder still refers to it for the pictures that follow
        return Pixels(pixel_format(_PLANAR[name]), views, frame.width, frame.height)
    if name == "yuv420p10le":
        return _ten_bits(frame)
    return None


def _ten_bits(frame: Any) -> Pixels:
    luma, u, v = (plane_view(plane, np.uint16) for plane in frame.planes)
    result = Pixels.empty(pixel_format(YUV_420_10BIT), frame.width, frame.height)
    np.left_shift(luma, _TEN_BITS_UP, out=result.planes[0])
    chroma = result.planes[1]
    doors.cv2().merge((u, v), chroma)
    np.left_shift(chroma, _TEN_BITS_UP, out=chroma)
    return result


def fill(frame: Any, pixels: Pixels) -> None:
    """Copy an NV12 or NV21 picture into a frame of the same size: nv12, nv21, yuv420p or yuv420p10le (8 bits are shifted up)."""
    if pixels.format.value not in (NV12, NV21) or (pixels.width, pixels.height) != (frame.width, frame.height):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the picture is {pixels.format.name} {pixels.width}x{pixels.height}, the encoder takes NV12 or NV21 of {frame.width}x{frame.height}",
            "give the encoder pictures of the size and format of its channel",
        )
    wide = frame.format.name == "yuv420p10le"
    planes = [plane_view(plane, np.uint16 if wide else np.uint8) for plane in frame.planes]
    if wide:
        np.left_shift(pixels.planes[0], 2, out=planes[0], dtype=np.uint16)
    else:
        planes[0][...] = pixels.planes[0]
    if len(planes) == 2:
        _fill_pairs(frame.planes[1], pixels)
    else:
        _fill_planes(planes[1:], pixels, wide)


def _fill_pairs(plane: Any, pixels: Pixels) -> None:
    rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : pixels.width]
    rows.reshape(rows.shape[0], -1, 2)[...] = pixels.planes[1]


def _fill_planes(planes: list[np.ndarray[Any, Any]], pixels: Pixels, wide: bool) -> None:
    for index, plane in enumerate(planes):
        source = pixels.planes[1][..., index ^ (pixels.format.value == NV21)]
        if wide:
            np.left_shift(source, 2, out=plane, dtype=np.uint16)
        else:
            plane[...] = source
