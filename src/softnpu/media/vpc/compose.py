"""What the picture engine does with whole pictures: transfer (convert, then scale), borders, filling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.pixels.convert import convert, in_bytes
from softnpu.media.pixels.csc import DEFAULT, Csc, matrix
from softnpu.media.pixels.formats import PixelFormat
from softnpu.media.pixels.picture import Pixels, Region, dtype_of, plane_shape
from softnpu.media.pixels.planes import Array, pairs, scratch
from softnpu.media.pixels.scale import resize
from softnpu.media.pixels.values import cast
from softnpu.media.vpc.checks import CONSTANT, REFLECT, REFLECT_101, REPLICATE, WRAP

INLINE_PIXELS = 4_200_000  # two pictures of 1080p: less work than this is done before another thread has woken up
_OPAQUE = 255.0
_FLOATS = ("float16", "bfloat16", "float32")


def cost(*pixels: Pixels) -> int:
    """How many pixels a piece of work touches, to be compared with `INLINE_PIXELS`."""
    return sum(picture.width * picture.height for picture in pixels)


def transfer(src: Pixels, out: Pixels, interpolation: str = "bilinear", csc: Csc | None = None) -> None:
    """The whole of a picture into the whole of another: converted to its format, then scaled, as the manual orders it.

    Only pixels of `out` are written. Both may lie in the same memory.
    """
    csc = csc or matrix(DEFAULT)
    if (src.width, src.height) == (out.width, out.height):
        convert(src, out.format, csc, out)
        return
    if src.format is out.format:
        resize(src, out, interpolation)
    else:
        middle = _middle(_middle_format(src.format, out.format), src.width, src.height)
        convert(src, middle.format, csc, middle)
        resize(middle, out, interpolation)
    if "a" in out.format.channels and "a" in src.format.channels and rules.row("vpc").get("clears_alpha"):
        out.planes[0][..., out.format.channels.index("a")] = 0  # the chip does not carry alpha through its scaler


def _middle_format(source: PixelFormat, target: PixelFormat) -> PixelFormat:
    """The format between converting and scaling: bytes for floats, which scaling turns into the same numbers at less cost."""
    return in_bytes(target) if source.is_8bit and target.type in _FLOATS else target


def _middle(form: PixelFormat, width: int, height: int) -> Pixels:
    shapes = [plane_shape(form, index, width, height) for index in range(len(form.planes))]
    planes = [scratch(f"middle {index}", shape, dtype_of(form)) for index, shape in enumerate(shapes)]
    return Pixels(form, planes, width, height)


def fill(out: Pixels, value: Sequence[float]) -> None:
    """One colour everywhere: R, G, B (, A) for RGB formats and Y, U, V for YUV ones, each 0 to 255."""
    for letters, plane, _, _ in _components(out):
        plane[...] = _row(plane, letters, _colours(out.format, value, None), out.format)


def make_border(out: Pixels, inner: Region, kind: int, value: Sequence[float], csc: Csc | None = None) -> None:
    """Fill a picture around `inner`, which is written already.

    `kind`: 0 constant, 1 replicate, 2 reflect, 3 reflect_101, 4 wrap. `value` is for 0: R, G, B (, A) for RGB formats and
    Y, U, V for YUV ones. With `csc` it is always R, G, B, and becomes Y, U, V where that is needed.
    """
    if kind not in (CONSTANT, REPLICATE, REFLECT, REFLECT_101, WRAP):
        raise NpuError(
            codes.INVALID_PARAM,
            f"there is no border of the kind {kind}",
            "use 0 constant, 1 replicate, 2 reflect, 3 reflect_101 or 4 wrap",
        )
    inner.check_inside(out.width, out.height, "picture inside the border")
    colours = _colours(out.format, value, csc) if kind == CONSTANT else {}
    for letters, plane, x, y in _components(out):
        columns = (inner.left // x, -(-inner.right // x))
        rows = (inner.top // y, -(-inner.bottom // y))
        if kind == CONSTANT:
            _surround(plane, rows, columns, _row(plane, letters, colours, out.format))
        else:
            _extend(plane, rows, columns, kind)


def _components(out: Pixels) -> list[tuple[str, Array, int, int]]:
    """Channels that have positions in common: their letters, their values as a view, and by what its sides are divided."""
    if not out.format.packed:
        specs = zip(out.format.planes, out.planes, strict=True)
        return [(spec.channels, plane, spec.x, spec.y) for spec, plane in specs]
    plane, letters = out.planes[0], out.format.channels
    luma = letters.index("y")
    return [
        ("y", pairs(plane)[:, : out.width, luma], 1, 1),
        (letters.replace("y", ""), plane[:, :, 1 - luma :: 2], 2, 1),
    ]


def _colours(form: PixelFormat, value: Sequence[float], csc: Csc | None) -> dict[str, float]:
    """The value of each letter."""
    if len(value) < 3 and (form.channels != "y" or csc or not value):
        raise NpuError(
            codes.INVALID_PARAM,
            f"a colour of {form.name} has three values, {list(value)} was given",
            "give R, G, B for RGB formats and Y, U, V for YUV formats",
        )
    if csc and form.space == "yuv":
        levels = np.floor(csc.yuv_from("rgb", "yuv") @ np.array([*value[:3], 1.0]) + 0.5).clip(0, 255)
        value = [float(level) for level in levels]
    return {"a": _OPAQUE, "x": _OPAQUE} | dict(zip("yuv" if form.space == "yuv" else "rgba", value, strict=False))


def _row(plane: Array, letters: str, colours: dict[str, float], form: PixelFormat) -> Array:
    """A row of one colour: NumPy copies rows much faster than single pixels."""
    levels = np.array([colours[letter] for letter in letters]).clip(0, 255)
    numbers = np.rint(np.nan_to_num(levels)).astype(np.uint8).reshape(1, -1)
    typed = np.empty(numbers.shape, plane.dtype)
    cast(numbers, in_bytes(form), typed, form)
    row = np.empty((1, *plane.shape[1:]), plane.dtype)
    row[...] = typed[0] if plane.ndim == 3 else typed[0, 0]
    return row


def _surround(plane: Array, rows: tuple[int, int], columns: tuple[int, int], row: Array) -> None:
    plane[: rows[0]] = row
    plane[rows[1] :] = row
    beside = plane[rows[0] : rows[1]]
    beside[:, : columns[0]] = row[:, : columns[0]]
    beside[:, columns[1] :] = row[:, columns[1] :]


def _extend(plane: Array, rows: tuple[int, int], columns: tuple[int, int], kind: int) -> None:
    """Columns beside the inner part first, then whole rows above and below, corners among them."""
    beside = plane[rows[0] : rows[1]]
    origin = _origins(plane.shape[1], columns, kind)
    beside[:, : columns[0]] = beside.take(origin[: columns[0]], axis=1)
    beside[:, columns[1] :] = beside.take(origin[columns[1] :], axis=1)
    origin = _origins(plane.shape[0], rows, kind)
    plane[: rows[0]] = plane[origin[: rows[0]]]
    plane[rows[1] :] = plane[origin[rows[1] :]]


def _origins(length: int, inner: tuple[int, int], kind: int) -> Array:
    """For each position of an axis the position inside that it takes its value from."""
    start, count = inner[0], inner[1] - inner[0]
    at = np.arange(-start, length - start)
    if kind == REPLICATE:
        return at.clip(0, count - 1) + start
    if kind == WRAP:
        return at % count + start
    shared = 1 if kind == REFLECT_101 else 0  # the outermost value is not repeated
    period = max(1, 2 * (count - shared))
    at %= period
    return np.where(at < count, at, period - 1 + shared - at) + start
