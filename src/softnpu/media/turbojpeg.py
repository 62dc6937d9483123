"""The door to libturbojpeg of the system, through ctypes: JPEG straight into planes, and YUV planes into RGB.

The library is written in C and trusts its caller: whoever calls sees to it that planes have room for what it writes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes

Plane = np.ndarray[Any, Any]

_NAMES = ("libturbojpeg.so.0", "libturbojpeg.so", "libturbojpeg.0.dylib", "turbojpeg.dll")
_WARNING = 0  # of tjGetErrorCode: the picture was decoded, but the data is not right
_SAMPLINGS = ("444", "422", "420", "400", "440", "411")  # in the order of the library
_ORDERS = ("rgb", "bgr")  # as the library numbers them
_REPEAT = 256  # chroma is repeated, not smoothed
_thread = threading.local()


@functools.cache
def library() -> Any:
    """The library, or None where it is not there or too old for this."""
    for name in _NAMES:
        loaded = _load(name)
        if loaded:
            return loaded
    other = ctypes.util.find_library("turbojpeg")  # last: it starts processes
    return _load(other) if other else None


def _load(name: str) -> Any:
    try:
        return _declare(ctypes.CDLL(name))
    except (OSError, AttributeError):  # not there, or without a function that is needed: PyAV does it then
        return None


def _declare(functions: Any) -> Any:
    pointer, number, numbers = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
    source = (pointer, pointer, ctypes.c_ulong)
    functions.tjInitDecompress.restype = pointer
    functions.tjInitDecompress.argtypes = ()
    functions.tjDestroy.argtypes = (pointer,)
    functions.tjGetErrorStr2.restype = ctypes.c_char_p
    functions.tjGetErrorStr2.argtypes = (pointer,)
    functions.tjGetErrorCode.argtypes = (pointer,)
    functions.tjDecompressHeader3.argtypes = (*source, numbers, numbers, numbers, numbers)
    planes = ctypes.POINTER(pointer)
    functions.tjDecompressToYUVPlanes.argtypes = (*source, planes, number, numbers, number, number)
    functions.tjDecodeYUVPlanes.argtypes = (pointer, planes, numbers, number, pointer, *(number,) * 5)
    return functions


class Decoder:
    """The decoder of one thread, destroyed when the thread ends.

    One that failed is not used again: version 2.1 goes on in the middle of the header that stopped it. So a decoder is
    taken from its thread, and kept there again only by who was content with it.
    """

    def __init__(self, functions: Any) -> None:
        self.library = functions
        self.handle = functions.tjInitDecompress()
        if not self.handle:
            raise NpuError(codes.BAD_ALLOC, "libturbojpeg has no memory for a decoder", "free memory")
        weakref.finalize(self, functions.tjDestroy, self.handle)

    @classmethod
    def take(cls, functions: Any) -> Decoder:
        """The decoder of this thread, which has none until it is kept again."""
        decoder: Decoder = getattr(_thread, "decoder", None) or cls(functions)
        _thread.decoder = None
        return decoder

    def keep(self) -> None:
        """Let the next call of this thread have it."""
        _thread.decoder = self

    def error(self) -> str:
        """What the library says of its last failure."""
        return str((self.library.tjGetErrorStr2(self.handle) or b"").decode(errors="replace")).strip()

    def only_warned(self) -> bool:
        """Whether the last failure was a warning: the picture was decoded, but the data is not right."""
        return bool(self.library.tjGetErrorCode(self.handle) == _WARNING)

    def header(self, address: int, size: int) -> tuple[int, int, str] | None:
        """Width, height and sub-sampling of a file as the library reads them; None when it cannot."""
        width, height, sampling, space = (ctypes.c_int() for _ in range(4))
        failed = self.library.tjDecompressHeader3(self.handle, address, size, width, height, sampling, space)
        if failed and not self.only_warned():
            return None
        index = sampling.value
        return width.value, height.value, _SAMPLINGS[index] if 0 <= index < len(_SAMPLINGS) else str(index)

    def to_planes(self, address: int, size: int, planes: Sequence[Plane], width: int, height: int) -> bool:
        """Decode a file into planes; False when the library is not content."""
        pointers, strides = _layout(planes)
        failed = self.library.tjDecompressToYUVPlanes(self.handle, address, size, pointers, width, strides, height, 0)
        return not failed


def _layout(planes: Sequence[Plane]) -> tuple[Any, Any]:
    """Where planes begin and how long their rows are, as the library takes it."""
    return (
        (ctypes.c_void_p * 3)(*(plane.ctypes.data for plane in planes)),
        (ctypes.c_int * 3)(*(plane.strides[0] for plane in planes)),
    )


def to_rgb(planes: Sequence[Plane], out: Plane, order: str) -> bool:
    """Y, U and V of a 4:2:0 picture of full range into RGB or BGR; False where the library cannot do it.

    It calculates as JPEG files are meant, chroma repeated, and is about three times as fast as a matrix over all pixels. It reads
    whole units of 2x2 pixels, so an odd side is not for it.
    """
    functions = library()
    rows, columns = planes[0].shape
    if functions is None or rows % 2 or columns % 2:
        return False
    if out.strides[1:] != (3, 1) or any(plane.strides[1] != 1 for plane in planes):
        return False
    decoder = Decoder.take(functions)
    pointers, strides = _layout(planes)
    kind, sampling = _ORDERS.index(order), _SAMPLINGS.index("420")
    failed = functions.tjDecodeYUVPlanes(
        decoder.handle, pointers, strides, sampling, out.ctypes.data, columns, out.strides[0], rows, kind, _REPEAT
    )
    if not failed:
        decoder.keep()
    return not failed
