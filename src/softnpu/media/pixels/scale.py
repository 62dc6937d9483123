"""Pictures of one size into pictures of another, plane by plane.

`bilinear` and `nearest` are OpenCV's, as the manual says of the newer chips. The `_tf` kinds are those of early TensorFlow,
where the first pixels coincide and not the corners. The kernel of the chips' `high_order` is not published: here it averages
areas in a direction that shrinks and is bicubic in one that grows. So it is close to the chips, not equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media.doors import cv2
from softnpu.media.pixels.formats import PixelFormat
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import Array, apart, movable, put, scratch, settle, take
from softnpu.media.pixels.values import cast, narrow, same_type, widen

INTERPOLATIONS = ("bilinear", "nearest", "bilinear_tf", "nearest_tf", "high_order")
_NEAREST = ("nearest", "nearest_tf")
_DIRECT = ("uint8", "uint16", "int16", "float32", "float64")  # types that OpenCV scales
_WIDE = ("int32", "uint32", "int64", "uint64", "float64")  # types whose values float32 does not hold
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def resize(src: Pixels, out: Pixels, interpolation: str = "bilinear") -> None:
    """Scale the whole of a picture into the whole of another of the same layout; a different type of value is converted after it."""
    _check(src, out, interpolation)
    if not out.width or not out.height:
        return
    src = apart(src, out)
    try:
        if src.format.packed:
            _resize_packed(src, out, interpolation)
        else:
            for source, target in zip(src.planes, out.planes, strict=True):
                _plane(source, src.format, target, out.format, interpolation)
    except cv2().error as error:
        raise NpuError(
            codes.INVALID_PARAM,
            f"{src.width}x{src.height} cannot be scaled to {out.width}x{out.height} ({interpolation}): {error}",
            "use smaller sides",
        ) from error


def _check(src: Pixels, out: Pixels, interpolation: str) -> None:
    if interpolation not in INTERPOLATIONS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"there is no interpolation {interpolation!r}",
            f"use one of {', '.join(INTERPOLATIONS)}",
        )
    if src.format.planes != out.format.planes:
        raise NpuError(
            codes.INVALID_PARAM,
            f"{src.format.name} cannot be scaled into {out.format.name}",
            "convert the picture first: scaling keeps the layout",
        )
    if not src.width or not src.height:
        raise NpuError(
            codes.INVALID_PARAM,
            f"a picture of {src.width}x{src.height} has nothing to scale",
            "give the source a width and a height",
        )


def _resize_packed(src: Pixels, out: Pixels, interpolation: str) -> None:
    """Packed 4:2:2: luma and chroma have different widths, so each is scaled by itself."""
    columns = out.planes[0].shape[1]
    scaled = {}
    for letter, channel in take(src, {}).items():
        target = scratch(f"scaled {letter}", (out.height, out.width if letter == "y" else columns))
        _plane(channel, src.format, target, out.format, interpolation)
        scaled[letter] = target
    put(out, scaled, 0)


def _plane(src: Array, source: PixelFormat, out: Array, target: PixelFormat, interpolation: str) -> None:
    if src.shape == out.shape:
        cast(src, source, out, target)
    elif not same_type(source, target):
        narrow(_scale(_numbers(src, source), out.shape, interpolation), out, target)
    elif interpolation in _NEAREST:
        _scale(movable(src), out.shape, interpolation, movable(out))
    elif source.bits == 10:
        np.left_shift(_scale(src >> 6, out.shape, interpolation), 6, out=out)
    elif source.type in _DIRECT:
        _scale(src, out.shape, interpolation, out)
    else:
        narrow(_scale(_numbers(src, source), out.shape, interpolation), out, target)


def _numbers(src: Array, source: PixelFormat) -> Array:
    """The values in a floating type that OpenCV scales."""
    if source.type == "bfloat16":
        return widen(src, source)
    numbers = scratch("numbers", src.shape, _DOUBLE if source.type in _WIDE else _SINGLE)
    np.copyto(numbers, src)
    return numbers


def _scale(src: Array, shape: tuple[int, ...], interpolation: str, out: Array | None = None) -> Array:
    """`src` with as many rows and columns as `shape`; in `out` when it is given."""
    size = (shape[1], shape[0])
    if interpolation == "high_order":
        return _high_order(src, size, out)
    if interpolation == "nearest_tf":
        picked = src[_first(src.shape[0], size[1])[0]].take(_first(src.shape[1], size[0])[0], axis=1)
        return picked if out is None else _written(picked, out)
    if interpolation == "bilinear_tf":
        return _bilinear_tf(src, size, out)
    return _cv2(src, size, cv2().INTER_NEAREST if interpolation == "nearest" else cv2().INTER_LINEAR, out)


def _cv2(src: Array, size: tuple[int, int], kind: int, out: Array | None) -> Array:
    result: Array = cv2().resize(src, size, dst=out, interpolation=kind)
    return result if out is None else settle(result, out)


def _high_order(src: Array, size: tuple[int, int], out: Array | None) -> Array:
    """First smaller where a side shrinks, then larger where one grows."""
    between = (min(src.shape[1], size[0]), min(src.shape[0], size[1]))
    if between == size:
        return _cv2(src, size, cv2().INTER_AREA, out)
    if between != (src.shape[1], src.shape[0]):
        src = _cv2(src, between, cv2().INTER_AREA, None)
    return _cv2(src, size, cv2().INTER_CUBIC, out)


def _written(values: Array, out: Array) -> Array:
    np.copyto(out, values)
    return out


def _first(inputs: int, outputs: int) -> tuple[Array, Array]:
    """For each output position the input position at or before it, and how far it lies behind that one."""
    at = np.arange(outputs, dtype=np.float32) * (np.float32(inputs) / np.float32(outputs))
    first = np.minimum(np.floor(at).astype(np.intp), inputs - 1)
    return first, at - first.astype(np.float32)


def _bilinear_tf(src: Array, size: tuple[int, int], out: Array | None) -> Array:
    floating = np.float64 if src.dtype == np.float64 else np.float32
    first, part = _first(src.shape[0], size[1])
    values = _between(src[first], src[np.minimum(first + 1, src.shape[0] - 1)], part, 0, floating)
    first, part = _first(src.shape[1], size[0])
    second = np.minimum(first + 1, src.shape[1] - 1)
    values = _between(values.take(first, axis=1), values.take(second, axis=1), part, 1, floating)
    if src.dtype.kind != "f":
        np.rint(values, out=values)  # a mean of values is inside their range
    if out is None:
        return values.astype(src.dtype, copy=False)
    np.copyto(out, values, casting="unsafe")
    return out


def _between(low: Array, high: Array, part: Array, axis: int, floating: type[Any]) -> Array:
    """low + (high - low) · part, where `part` goes along an axis."""
    shape = [1] * low.ndim
    shape[axis] = -1
    start = low.astype(floating, copy=False)
    values: Array = np.subtract(high, start, dtype=floating)
    values *= part.reshape(shape)
    values += start
    return values
