"""JPEG straight into planes by libturbojpeg, without a detour over RGB.

The library trusts its caller, so each plane it gets has room for what it writes: planes are padded to whole sampling units
(an odd width of 4:2:0 writes one column more), and the header it sees must be the one that was parsed here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.media.codecs.jpeg.header import JpegInfo
from softnpu.media.pixels.planes import scratch
from softnpu.media.turbojpeg import Decoder, Plane

# Rubbish between the data and a marker that is no restart marker: cameras that pad their files write it.
_HARMLESS = re.compile(r"extraneous bytes before marker 0x(?!d[0-7])")


def decode(library: Any, source: Plane, info: JpegInfo, wanted: Sequence[Plane | None]) -> list[Plane]:
    """The planes of a picture. A plane is one of `wanted` where that has room, else valid until the thread's next call."""
    decoder, address = Decoder.take(library), source.ctypes.data
    _check_header(decoder, address, source.size, info)
    planes, views = _targets(info, wanted)
    if not decoder.to_planes(address, source.size, planes, info.width, info.height):
        text = decoder.error()
        if not decoder.only_warned() or not _HARMLESS.search(text):
            raise damaged(text)
    decoder.keep()
    return views


def damaged(text: str) -> NpuError:
    """The error of a file whose picture data cannot be decoded."""
    return NpuError(
        codes.INVALID_PARAM,
        f"the JPEG picture data is damaged: {text}",
        "check that the whole file was copied and that its size is right",
    )


def _check_header(decoder: Decoder, address: int, size: int, info: JpegInfo) -> None:
    seen = decoder.header(address, size)
    if seen is None:
        raise damaged(decoder.error())
    parsed = (info.width, info.height, info.sampling)
    if seen != parsed:
        raise damaged(f"read as {seen} by libturbojpeg, as {parsed} here")


def _targets(info: JpegInfo, wanted: Sequence[Plane | None]) -> tuple[list[Plane], list[Plane]]:
    """Where the library writes each plane, and the part of it that is the picture (all of it in a target that was wanted).

    Each scratch plane has the memory of a luma plane: even a header that another thread changes meanwhile stays inside.
    """
    unit_x, unit_y = max(x for x, _ in info.factors), max(y for _, y in info.factors)
    width, height = align_up(info.width, unit_x), align_up(info.height, unit_y)
    size = align_up(width, 32) * align_up(height, 32)
    planes: list[Plane] = []
    views: list[Plane] = []
    for index, ((x, y), target) in enumerate(zip(info.factors, wanted, strict=False)):
        rows, columns = -(-info.height * y // unit_y), -(-info.width * x // unit_x)
        padded = height * y // unit_y, width * x // unit_x
        if target is not None and target.shape == padded and target.strides[1] == 1:
            planes.append(target)
            views.append(target)
            continue
        plane = scratch(f"jpeg {index}", (size,))[: padded[0] * padded[1]].reshape(padded)
        planes.append(plane)
        views.append(plane[:rows, :columns])
    return planes, views
