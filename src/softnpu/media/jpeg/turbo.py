"""libturbojpeg where the system has it: JPEG straight into planes, without a detour over RGB.

The library is written in C and trusts its caller, so each plane it gets has room for what it writes: planes are
padded to whole sampling units (an odd width of 4:2:0 writes one column more), and the header it sees must be the one
that was parsed here.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import re
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.media._planes import scratch
from softnpu.media.jpeg.header import JpegInfo

Plane = np.ndarray[Any, Any]

_NAMES = ("libturbojpeg.so.0", "libturbojpeg.so", "libturbojpeg.0.dylib", "turbojpeg.dll")
_WARNING = 0  # of tjGetErrorCode: the picture was decoded, but the data is not right
_SAMPLINGS = ("444", "422", "420", "400", "440", "411")  # in the order of the library
_ORDERS = ("rgb", "bgr")  # as the library numbers them
_REPEAT = 256  # chroma is repeated, not smoothed
# Rubbish between the data and a marker that is no restart marker: cameras that pad their files write it.
_HARMLESS = re.compile(r"extraneous bytes before marker 0x(?!d[0-7])")
_thread = threading.local()


@functools.cache
def library() -> Any:
    """The library, or None where it is not there or too old for this."""
    for name in _NAMES:
        found = _load(name)
        if found:
            return found
    other = ctypes.util.find_library("turbojpeg")  # last: it starts processes
    return _load(other) if other else None


def _load(name: str) -> Any:
    try:
        return _declare(ctypes.CDLL(name))
    except (OSError, AttributeError):  # not there, or without a function that is needed: PyAV does it then
        return None


def _declare(found: Any) -> Any:
    pointer, number, numbers = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
    source = (pointer, pointer, ctypes.c_ulong)
    found.tjInitDecompress.restype = pointer
    found.tjInitDecompress.argtypes = ()
    found.tjDestroy.argtypes = (pointer,)
    found.tjGetErrorStr2.restype = ctypes.c_char_p
    found.tjGetErrorStr2.argtypes = (pointer,)
    found.tjGetErrorCode.argtypes = (pointer,)
    found.tjDecompressHeader3.argtypes = (*source, numbers, numbers, numbers, numbers)
    planes = ctypes.POINTER(pointer)
    found.tjDecompressToYUVPlanes.argtypes = (*source, planes, number, numbers, number, number)
    found.tjDecodeYUVPlanes.argtypes = (pointer, planes, numbers, number, pointer, *(number,) * 5)
    return found


class _Decoder:
    """The decoder of one thread, destroyed when the thread ends."""

    def __init__(self, found: Any) -> None:
        self.library = found
        self.handle = found.tjInitDecompress()
        if not self.handle:
            raise NpuError(codes.BAD_ALLOC, "libturbojpeg has no memory for a decoder", "free memory")
        weakref.finalize(self, found.tjDestroy, self.handle)

    def error(self) -> str:
        return str((self.library.tjGetErrorStr2(self.handle) or b"").decode(errors="replace")).strip()


def decode(found: Any, source: Plane, info: JpegInfo, wanted: Sequence[Plane | None]) -> list[Plane]:
    """The planes of a picture. A plane is one of `wanted` where that has room, else valid until the thread's next call.

    A decoder that failed is not used again: version 2.1 goes on in the middle of the header that stopped it.
    """
    decoder: _Decoder = getattr(_thread, "decoder", None) or _Decoder(found)
    _thread.decoder = None
    address = source.ctypes.data
    _check_header(decoder, address, source.size, info)
    planes, views = _targets(info, wanted)
    pointers = (ctypes.c_void_p * 3)(*(plane.ctypes.data for plane in planes))
    strides = (ctypes.c_int * 3)(*(plane.strides[0] for plane in planes))
    failed = found.tjDecompressToYUVPlanes(
        decoder.handle, address, source.size, pointers, info.width, strides, info.height, 0
    )
    if failed:
        text = decoder.error()
        if found.tjGetErrorCode(decoder.handle) != _WARNING or not _HARMLESS.search(text):
            raise damaged(text)
    _thread.decoder = decoder
    return views


def damaged(text: str) -> NpuError:
    """The error of a file whose picture data cannot be decoded."""
    return NpuError(
        codes.INVALID_PARAM,
        f"the JPEG picture data is damaged: {text}",
        "check that the whole file was copied and that its size is right",
    )


def _check_header(decoder: _Decoder, address: int, size: int, info: JpegInfo) -> None:
    width, height, sampling, space = (ctypes.c_int() for _ in range(4))
    failed = decoder.library.tjDecompressHeader3(decoder.handle, address, size, width, height, sampling, space)
    if failed and decoder.library.tjGetErrorCode(decoder.handle) != _WARNING:
        raise damaged(decoder.error())
    index = sampling.value
    seen = (width.value, height.value, _SAMPLINGS[index] if 0 <= index < len(_SAMPLINGS) else str(index))
    if seen != (info.width, info.height, info.sampling):
        raise damaged(f"read as {seen} by libturbojpeg, as {(info.width, info.height, info.sampling)} here")


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


def to_rgb(planes: Sequence[Plane], out: Plane, order: str) -> bool:
    """Y, U and V of a 4:2:0 picture of full range into RGB or BGR; False where the library cannot do it.

    It calculates as JPEG files are meant, chroma repeated, and is about three times as fast as a matrix over all pixels. It reads
    whole units of 2x2 pixels, so an odd side is not for it.
    """
    found = library()
    rows, columns = planes[0].shape
    if found is None or rows % 2 or columns % 2 or out.strides[1:] != (3, 1) or any(p.strides[1] != 1 for p in planes):
        return False
    decoder: _Decoder = getattr(_thread, "decoder", None) or _Decoder(found)
    _thread.decoder = None
    pointers = (ctypes.c_void_p * 3)(*(plane.ctypes.data for plane in planes))
    strides = (ctypes.c_int * 3)(*(plane.strides[0] for plane in planes))
    kind, sampling = _ORDERS.index(order), _SAMPLINGS.index("420")
    failed = found.tjDecodeYUVPlanes(
        decoder.handle, pointers, strides, sampling, out.ctypes.data, columns, out.strides[0], rows, kind, _REPEAT
    )
    if not failed:
        _thread.decoder = decoder
    return not failed
