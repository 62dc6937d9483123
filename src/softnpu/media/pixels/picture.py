"""Pictures: pixels in planes (`Pixels`), and where those lie in device memory (`Picture`)."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import align_up
from softnpu.media.pixels.formats import PixelFormat, pixel_format
from softnpu.runtime.memory.memory import Memory

_DTYPES = {"bfloat16": np.dtype(np.uint16)}
_BYTE = np.dtype(np.uint8)
MAX_SIDE = 1 << 15
MAX_STRIDE = 1 << 20


class Pixels:
    """A picture as arrays, one for each plane: (rows, columns) or (rows, columns, channels).

    The arrays may be views of device memory or belong to a codec. A packed 4:2:2 picture has one array of macro pixels
    (rows, ceil(width / 2), 4). bfloat16 values are kept as their 16 bits.
    """

    __slots__ = ("format", "height", "planes", "width")

    def __init__(self, form: PixelFormat, planes: list[np.ndarray[Any, Any]], width: int, height: int) -> None:
        self.format = form
        self.planes = planes
        self.width = width
        self.height = height

    @classmethod
    def empty(cls, form: PixelFormat, width: int, height: int) -> Pixels:
        """New memory for a picture of this size."""
        dtype = dtype_of(form)
        planes = [np.empty(plane_shape(form, index, width, height), dtype) for index in range(len(form.planes))]
        return cls(form, planes, width, height)

    def crop(self, left: int, top: int, width: int, height: int) -> Pixels:
        """A part of the picture, without a copy. An odd corner of a picture with fewer chroma values starts at the chroma value that covers it."""
        if left == 0 and top == 0 and width == self.width and height == self.height:
            return self
        planes = []
        for index, spec in enumerate(self.format.planes):
            x = 2 if self.format.packed else spec.x
            rows, columns = plane_shape(self.format, index, width, height)[:2]
            first_row, first_column = top // spec.y, left // x
            planes.append(self.planes[index][first_row : first_row + rows, first_column : first_column + columns])
        return Pixels(self.format, planes, width, height)

    def copy(self) -> Pixels:
        """The same in memory of its own."""
        return Pixels(self.format, [plane.copy() for plane in self.planes], self.width, self.height)

    def __repr__(self) -> str:
        return f"Pixels({self.format.name} {self.width}x{self.height})"


def dtype_of(form: PixelFormat) -> np.dtype[Any]:
    """NumPy's type for the values of a format."""
    return _DTYPES.get(form.type) or np.dtype(form.type)


def plane_shape(form: PixelFormat, index: int, width: int, height: int) -> tuple[int, ...]:
    """The shape of a plane's array in a picture of this size."""
    spec = form.planes[index]
    if form.packed:
        return height, (width + 1) // 2, 4
    rows, columns = -(-height // spec.y), -(-width // spec.x)
    return (rows, columns) if len(spec.channels) == 1 else (rows, columns, len(spec.channels))


@dataclass
class Picture:
    """A picture in device memory, as a program describes it. Strides are bytes of a row of the first plane, and rows."""

    address: int = 0
    size: int = 0
    width: int = 0
    height: int = 0
    width_stride: int = 0
    height_stride: int = 0
    format: int = 0

    def with_strides(self, align: int = 1, least: int = 0) -> Picture:
        """The same with strides where the program gave none.

        Rows are `align` pixels times a whole number and have `least` bytes, as the chip would have it; the smallest that can be
        where the memory has no room for those, since programs compute sizes without alignment, too.
        """
        if self.width_stride and self.height_stride:
            return self
        form = pixel_format(self.format)
        rows = self.height_stride or self.height + (self.height & 1 if form.chroma[1] > 1 else 0)
        columns = self.width_stride or max(form.row_bytes(align_up(self.width, align)), least)
        if form.size(columns, rows) > self.size:
            columns = self.width_stride or form.row_bytes(self.width)
        return replace(self, width_stride=columns, height_stride=rows)

    def decoded(self, form: PixelFormat, size: tuple[int, int], strides: tuple[int, int]) -> Picture:
        """The output of a decoder: format and sides are the decoder's, strides the program's where it gave some."""
        return replace(
            self,
            format=form.value,
            width=size[0],
            height=size[1],
            width_stride=self.width_stride or strides[0],
            height_stride=self.height_stride or strides[1],
        )

    def pixels(self, memory: Memory, write: bool, label: str = "picture") -> Pixels:
        """Its planes as arrays over the memory itself; raises unless the whole picture lies in memory of the program."""
        layout = _layout(self.format, self.width, self.height, self.width_stride, self.height_stride, label)
        self._check(layout, label)
        base, first = memory.window(self.address, layout.end, write)
        planes = [np.ndarray(shape, layout.dtype, base, first + start, steps) for shape, start, steps in layout.planes]
        return Pixels(layout.form, planes, layout.width, layout.height)

    def _check(self, layout: _Layout, label: str) -> None:
        if self.address == 0:
            raise NpuError(
                codes.INVALID_PARAM, f"the {label} has no memory (address 0)", "allocate it with dvpp_malloc"
            )
        if layout.end > self.size:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the {label} needs {layout.end} bytes ({layout.form.name}, {layout.width}x{layout.height}, strides {self.width_stride}x{self.height_stride}), its buffer has {self.size}",
                f"allocate {layout.form.size(self.width_stride, self.height_stride)} bytes and give that as its size",
            )
        if self.address % layout.form.item:
            raise NpuError(
                codes.MEMORY_ADDRESS_UNALIGNED,
                f"the address {self.address:#x} of the {label} is no multiple of {layout.form.item}",
                "use the address that dvpp_malloc returned",
            )


@dataclass(frozen=True)
class _Layout:
    """Where the planes of a picture lie from its address on: shape, first byte and steps of each."""

    form: PixelFormat
    width: int
    height: int
    dtype: np.dtype[Any]
    end: int
    planes: tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]


@functools.lru_cache(maxsize=1024)
def _layout(value: int, width: int, height: int, width_stride: int, height_stride: int, label: str) -> _Layout:
    form = pixel_format(value)
    width, height = _usable(form, width, height, width_stride, height_stride)
    _check_sides(form, width, height, width_stride, height_stride, label)
    dtype = dtype_of(form)
    planes: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []
    start = end = 0
    for index, spec in enumerate(form.planes):
        shape, stride = plane_shape(form, index, width, height), form.plane_stride(index, width_stride)
        if stride < _row_bytes(shape, dtype.itemsize):
            raise NpuError(
                codes.INVALID_PARAM,
                f"the width stride {width_stride} of the {label} has no room for the chroma of {width} columns ({form.name})",
                "use an even width stride",
            )
        steps = (stride, dtype.itemsize) if len(shape) == 2 else (stride, shape[2] * dtype.itemsize, dtype.itemsize)
        planes.append((shape, start, steps))
        end = start + stride * (shape[0] - 1) + _row_bytes(shape, dtype.itemsize)
        start += stride * (height_stride // spec.y)
    return _Layout(form, width, height, dtype, end, tuple(planes))


def _usable(form: PixelFormat, width: int, height: int, width_stride: int, height_stride: int) -> tuple[int, int]:
    """Width and height for which memory is described: an odd side whose last chroma value has no room is one less."""
    if form.chroma[1] == 2 and height & 1 and height_stride <= height and height > 1:
        height -= 1
    if form.chroma[0] == 2 and width & 1 and width_stride <= form.pixel_bytes * width and width > 1:
        width -= 1
    return width, height


def _check_sides(form: PixelFormat, width: int, height: int, width_stride: int, height_stride: int, label: str) -> None:
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the {label} is {width}x{height}",
            f"give it a width and a height from 1 to {MAX_SIDE}",
        )
    least = form.row_bytes(width)
    if not least <= width_stride <= MAX_STRIDE:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the width stride {width_stride} of the {label} does not fit its width {width} ({form.name} takes {least} bytes a row)",
            "the width stride is in bytes: width times the bytes of a pixel, aligned as the chip wants",
        )
    if not height <= height_stride <= MAX_STRIDE:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the height stride {height_stride} of the {label} is less than its height {height}",
            "the height stride counts rows: the height, aligned as the chip wants",
        )
    if width_stride % form.item:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the width stride {width_stride} of the {label} is no multiple of its {form.item}-byte values",
            "align it",
        )


def _row_bytes(shape: tuple[int, ...], item: int) -> int:
    return shape[1] * item * (shape[2] if len(shape) == 3 else 1)


@dataclass
class Region:
    """A rectangle in pixels; `right` and `bottom` are one past the end."""

    left: int
    top: int
    width: int
    height: int
    right: int = field(init=False)
    bottom: int = field(init=False)

    def __post_init__(self) -> None:
        self.right = self.left + self.width
        self.bottom = self.top + self.height

    def check_inside(self, width: int, height: int, label: str) -> None:
        """Raise unless it lies in a picture of this size."""
        if (
            self.width <= 0
            or self.height <= 0
            or self.left < 0
            or self.top < 0
            or self.right > width
            or self.bottom > height
        ):
            raise NpuError(
                codes.INVALID_PARAM,
                f"the {label} {self.width}x{self.height} at ({self.left}, {self.top}) is not inside the {width}x{height} picture",
                "keep it inside the picture",
            )
