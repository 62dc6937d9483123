"""Pixel formats: which planes a picture has in memory, and how many bytes they take."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from softnpu.base.errors import NpuError, codes
from softnpu.spec._generated.pixel_formats import FORMATS

NV12, NV21 = 1, 2
YUV_400 = 0
RGB_888, BGR_888 = 12, 13
YUV_PLANAR_420, YUV_PLANAR_422, YUV_PLANAR_444, YUV_PLANAR_440 = 55, 56, 57, 65
UNKNOWN = 10000
_BYTES = {"bfloat16": 2, "uint8": 1, "int8": 1}


@dataclass(frozen=True)
class PlaneSpec:
    """One plane: its channels in memory order, and by what the picture's sides are divided."""

    channels: str
    x: int
    y: int


@dataclass(frozen=True, eq=False)
class PixelFormat:
    """A row of `spec/pixel_formats.toml`. Compared by identity: `pixel_format(value)` always gives the same object."""

    value: int
    name: str
    space: str  # yuv or rgb
    planes: tuple[PlaneSpec, ...]
    type: str  # NumPy's name, or bfloat16 (kept as its upper 16 bits)
    bits: int
    even: str  # which of w and h must be even
    packed: bool  # two pixels in four bytes: the one plane has the macro pixels as its items

    @functools.cached_property
    def item(self) -> int:
        """Bytes of one channel value."""
        return _BYTES.get(self.type) or int("".join(filter(str.isdigit, self.type))) // 8

    @functools.cached_property
    def is_8bit(self) -> bool:
        """Whether every channel value is an unsigned byte."""
        return self.type == "uint8"

    @functools.cached_property
    def channels(self) -> str:
        """All channels in the order in which they lie in memory, e.g. `yuv`, `bgra`, `y`."""
        return "".join(plane.channels for plane in self.planes)

    @functools.cached_property
    def pixel_bytes(self) -> int:
        """Bytes of a pixel in the first plane."""
        return 2 if self.packed else len(self.planes[0].channels) * self.item

    @functools.cached_property
    def chroma(self) -> tuple[int, int]:
        """By what width and height of the chroma are divided: (2, 2) for 4:2:0."""
        if self.packed:
            return 2, 1
        last = self.planes[-1]
        return last.x, last.y

    def row_bytes(self, width: int) -> int:
        """The smallest width stride."""
        if self.packed:
            return (width + 1) // 2 * 4
        return width * self.pixel_bytes

    def plane_rows(self, index: int, height_stride: int) -> int:
        """Rows of a plane, with those that only align."""
        return -(-height_stride // self.planes[index].y)

    def plane_stride(self, index: int, width_stride: int) -> int:
        """Bytes from row to row of a plane, when those of the first plane are `width_stride`."""
        if index == 0:
            return width_stride
        plane, first = self.planes[index], self.planes[0]
        return width_stride * len(plane.channels) // (plane.x * len(first.channels))

    def size(self, width_stride: int, height_stride: int) -> int:
        """Bytes of a picture with these strides."""
        return sum(
            self.plane_stride(index, width_stride) * height_stride // plane.y for index, plane in enumerate(self.planes)
        )

    def __repr__(self) -> str:
        return f"PixelFormat({self.name})"


def _plane(text: str) -> PlaneSpec:
    channels, _, divided = text.partition("/")
    x, _, y = divided.partition("x")
    return PlaneSpec(channels, int(x or 1), int(y or 1))


@functools.cache
def _make(value: int) -> PixelFormat:
    name, space, planes, kind, bits, even, packed = FORMATS[value]
    return PixelFormat(value, name, space, tuple(map(_plane, planes)), kind, bits, even, bool(packed))


def is_known(value: int) -> bool:
    """Whether there is a pixel format of this number that the engines here can process."""
    return value in FORMATS


def pixel_format(value: int) -> PixelFormat:
    """The pixel format of this number."""
    if value not in FORMATS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"pixel format {value} is not one that can be processed",
            "use a value of acldvppPixelFormat / hi_pixel_format; docs/support/media_limits.md lists those that can",
        )
    return _make(value)
