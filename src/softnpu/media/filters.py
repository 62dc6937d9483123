"""Filters, flips and rotations: OpenCV's function of the same name on each plane, the chroma in its own resolution.

The plumbing that the other picture functions share is here too: checks, border values, and OpenCV calls that write
into views. The kernel limits of the chip (sides 1, 3, 5) hold in every mode: with another
kernel OpenCV would compute something for which no chip gives a result. Borders are numbered 0 constant, 1 replicate,
2 reflect, 3 reflect-101, 4 wrap; the chip's filters know the first two, and OpenCV's no wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.media import csc
from softnpu.media._planes import Array, apart, movable
from softnpu.media.convert import convert
from softnpu.media.doors import cv2
from softnpu.media.formats import PixelFormat, PlaneSpec, pixel_format
from softnpu.media.picture import Pixels, dtype_of, plane_shape

PlaneWork = Callable[[Array, Array, PlaneSpec], None]
CONSTANT, REPLICATE, REFLECT, REFLECT_101, WRAP = range(5)
BLACK = (0.0, 0.0, 0.0, 0.0)
# Where a channel stands in a value or table that a program gives: R,G,B or Y,U,V, then alpha.
CHANNEL_INDEX = {"y": 0, "r": 0, "u": 1, "g": 1, "v": 2, "b": 2, "a": 3, "x": 3}
ARITHMETIC = frozenset({"uint8", "uint16", "int16", "float32", "float64"})
_BORDER_NAMES = ("BORDER_CONSTANT", "BORDER_REPLICATE", "BORDER_REFLECT", "BORDER_REFLECT_101", "BORDER_WRAP")
_SEMIPLANAR_422, _SEMIPLANAR_444 = 3, 5
_KERNEL_SIDES = (1, 3, 5)
_MAX_ITERATIONS = 100
_FLIPS = (1, 0, -1)  # horizontal, vertical, both: the codes of cv2.flip
_ROTATIONS = ("ROTATE_90_CLOCKWISE", "ROTATE_180", "ROTATE_90_COUNTERCLOCKWISE")


def wrong(text: str, remedy: str) -> NpuError:
    """The error for an argument that cannot be right."""
    return NpuError(codes.INVALID_PARAM, text, remedy)


def check_planes(pixels: Pixels, word: str) -> None:
    """Raise unless the arrays of a picture are what its format and size say."""
    form = pixels.format
    if pixels.width < 1 or pixels.height < 1:
        raise wrong(f"the {word} is {pixels.width}x{pixels.height}", "give it a width and a height of at least 1")
    shapes = [plane_shape(form, index, pixels.width, pixels.height) for index in range(len(form.planes))]
    if [plane.shape for plane in pixels.planes] != shapes:
        found = [plane.shape for plane in pixels.planes]
        raise wrong(
            f"the {word} ({form.name}, {pixels.width}x{pixels.height}) has planes of the shapes {found} instead of {shapes}",
            "give one array for each plane of the format",
        )
    if any(plane.dtype != dtype_of(form) for plane in pixels.planes):
        raise wrong(f"the {word} holds other values than its format {form.name} says", f"use {dtype_of(form)}")


def check_type(form: PixelFormat, word: str, types: frozenset[str] = ARITHMETIC) -> None:
    """Raise when there is no arithmetic for the values of a format."""
    if form.type not in types:
        raise NpuError(
            codes.API_NOT_SUPPORT,
            f"{word} cannot work on pictures of the format {form.name}",
            f"convert the picture first; formats of {', '.join(sorted(types))} values can be used",
        )


def check_formats(src: Pixels, out: Pixels, word: str) -> None:
    """Raise unless both pictures are sound and of one format."""
    check_planes(src, f"input of {word}")
    check_planes(out, f"output of {word}")
    if src.format is not out.format:
        raise wrong(
            f"{word} writes the format it reads, but the input is {src.format.name} and the output {out.format.name}",
            "give both pictures the same format",
        )


def check_same(src: Pixels, out: Pixels, word: str) -> None:
    """Raise unless both pictures are sound, of one format and of one size."""
    check_formats(src, out, word)
    if (src.width, src.height) != (out.width, out.height):
        raise wrong(
            f"{word} keeps the size, but the input is {src.width}x{src.height} and the output {out.width}x{out.height}",
            "give both pictures the same width and height",
        )


def limits(kernel: tuple[int, int], iterations: int = 1, most: int = _MAX_ITERATIONS) -> None:
    """Raise unless kernel and iterations are such as the chip's filters take."""
    if kernel[0] not in _KERNEL_SIDES or kernel[1] not in _KERNEL_SIDES:
        raise wrong(f"the kernel is {kernel[0]}x{kernel[1]}", "use 1, 3 or 5 for its width and its height")
    if not 1 <= iterations <= most:
        raise wrong(
            f"{iterations} iterations are asked for", f"use 1 to {most}" if most > 1 else "this filter runs once: use 1"
        )


def finite(word: str, *values: float) -> None:
    """Raise when a number is infinite or none at all."""
    if not all(math.isfinite(value) for value in values):
        raise wrong(f"the {word} is {values if len(values) > 1 else values[0]}", "use finite numbers")


def border_code(border: int, last: int = REFLECT_101) -> int:
    """OpenCV's number of a border type; `last` is the highest one that makes sense to the caller."""
    if not 0 <= border <= last:
        raise wrong(f"the border type {border} is unknown here", f"use 0 (constant), 1 (replicate) … {last}")
    return int(getattr(cv2(), _BORDER_NAMES[border]))


def scalar(spec: PlaneSpec, value: Sequence[float]) -> tuple[float, ...]:
    """What a border value in R,G,B,A or Y,U,V order is for the channels of one plane."""
    finite("border value", *value)
    whole = (*value, *BLACK)
    return (*(float(whole[CHANNEL_INDEX[channel]]) for channel in spec.channels), *BLACK)[:4]


@contextmanager
def guarded() -> Iterator[None]:
    """What OpenCV refuses becomes an error of ours."""
    try:
        yield
    except cv2().error as error:
        raise wrong(f"OpenCV refused the picture: {error}", "check sizes and parameters") from error


def into(target: Array, call: Callable[[Array | None], Array]) -> None:
    """Run an OpenCV function whose result goes to `target`, at once where OpenCV can write to such an array."""
    item, steps = target.itemsize, target.strides
    dense = (item,) if target.ndim == 2 else (item * target.shape[2], item)
    with guarded():
        if steps[1:] == dense and steps[0] >= item * math.prod(target.shape[1:]):
            call(target)
        else:
            target[...] = call(None)


def unpacked(src: Pixels) -> Pixels:
    """A packed 4:2:2 picture as luma and chroma plane (a copy), any other as it is."""
    return convert(src, pixel_format(_SEMIPLANAR_422), csc.matrix(csc.DEFAULT)) if src.format.packed else src


def each_plane(src: Pixels, out: Pixels, work: PlaneWork) -> None:
    """Run `work(plane of src, plane of out, its row)` for every plane; packed 4:2:2 is taken apart and put together again."""
    if src.format.packed:
        loose = Pixels.empty(pixel_format(_SEMIPLANAR_422), out.width, out.height)
        each_plane(unpacked(src), loose, work)
        convert(loose, out.format, csc.matrix(csc.DEFAULT), out)
        return
    src = apart(src, out)
    for source, target, spec in zip(src.planes, out.planes, src.format.planes, strict=True):
        work(source, target, spec)


def _neighbourhood(
    src: Pixels,
    out: Pixels,
    kernel: tuple[int, int],
    border: int,
    value: Sequence[float],
    call: Callable[[Array, Array | None, int], Array],
) -> None:
    """Run `call(plane, dst, border code)` on each plane. OpenCV's linear filters take no border value: a constant border is laid around first."""
    code = border_code(border)
    right, below = kernel[0] // 2, kernel[1] // 2

    def work(source: Array, target: Array, spec: PlaneSpec) -> None:
        if border != CONSTANT:
            into(target, lambda dst: call(source, dst, code))
            return
        edge = scalar(spec, value)
        with guarded():
            wide = cv2().copyMakeBorder(source, below, below, right, right, code, value=edge)
            rows, columns = source.shape[:2]
            target[...] = call(wide, None, code)[below : below + rows, right : right + columns]

    each_plane(src, out, work)


def blur(
    src: Pixels, out: Pixels, kernel: tuple[int, int], border: int = CONSTANT, value: Sequence[float] = BLACK
) -> None:
    """The mean of the pixels below a kernel of (width, height). It runs once: check other iterations with `limits(kernel, n, 1)`."""
    limits(kernel)
    check_same(src, out, "blur")
    check_type(src.format, "blur")
    _neighbourhood(
        src, out, kernel, border, value, lambda plane, dst, code: cv2().blur(plane, kernel, dst=dst, borderType=code)
    )


def gaussian(
    src: Pixels,
    out: Pixels,
    kernel: tuple[int, int],
    sigma_x: float,
    sigma_y: float = 0.0,
    border: int = CONSTANT,
    value: Sequence[float] = BLACK,
) -> None:
    """Gaussian blur; `sigma_y` 0 stands for `sigma_x`, and a `sigma_x` of 0 for what fits the kernel."""
    limits(kernel)
    finite("sigma", sigma_x, sigma_y)
    check_same(src, out, "gaussian_blur")
    check_type(src.format, "gaussian_blur")

    def call(plane: Array, dst: Array | None, code: int) -> Array:
        return cv2().GaussianBlur(plane, kernel, sigma_x, dst=dst, sigmaY=sigma_y, borderType=code)  # type: ignore[no-any-return]

    _neighbourhood(src, out, kernel, border, value, call)


def filter2d(
    src: Pixels,
    out: Pixels,
    kernel: Array,
    delta: float = 0.0,
    border: int = CONSTANT,
    value: Sequence[float] = BLACK,
) -> None:
    """The correlation with a kernel of (height, width) weights, plus `delta`."""
    weights = np.ascontiguousarray(kernel, np.float32)
    if weights.ndim != 2:
        raise wrong(f"the kernel has {weights.ndim} dimensions", "give rows of weights")
    size = (weights.shape[1], weights.shape[0])
    limits(size)
    finite("delta", delta)
    if not np.isfinite(weights).all():
        raise wrong("the kernel has weights that are not finite", "use finite numbers")
    check_same(src, out, "filter2d")
    check_type(src.format, "filter2d")

    def call(plane: Array, dst: Array | None, code: int) -> Array:
        return cv2().filter2D(plane, -1, weights, dst=dst, delta=delta, borderType=code)  # type: ignore[no-any-return]

    _neighbourhood(src, out, size, border, value, call)


def median(src: Pixels, out: Pixels, kernel: int) -> None:
    """The median of a square; what is outside the picture is its nearest pixel."""
    limits((kernel, kernel))
    check_same(src, out, "median_blur")
    check_type(src.format, "median_blur", ARITHMETIC - {"float64"})
    each_plane(
        src,
        out,
        lambda source, target, _: into(target, lambda dst: cv2().medianBlur(source, kernel, dst=dst)),
    )


def _morph(
    name: str,
    src: Pixels,
    out: Pixels,
    kernel: tuple[int, int],
    iterations: int,
    border: int,
    value: Sequence[float],
) -> None:
    limits(kernel, iterations)
    check_same(src, out, name)
    check_type(src.format, name)
    code = border_code(border)
    shape = np.ones((kernel[1], kernel[0]), np.uint8)
    function = getattr(cv2(), name)

    def work(source: Array, target: Array, spec: PlaneSpec) -> None:
        edge = scalar(spec, value)
        into(
            target,
            lambda dst: function(source, shape, dst=dst, iterations=iterations, borderType=code, borderValue=edge),
        )

    each_plane(src, out, work)


def erode(
    src: Pixels,
    out: Pixels,
    kernel: tuple[int, int],
    iterations: int = 1,
    border: int = CONSTANT,
    value: Sequence[float] = BLACK,
) -> None:
    """The least of the pixels below a kernel of (width, height), `iterations` times."""
    _morph("erode", src, out, kernel, iterations, border, value)


def dilate(
    src: Pixels,
    out: Pixels,
    kernel: tuple[int, int],
    iterations: int = 1,
    border: int = CONSTANT,
    value: Sequence[float] = BLACK,
) -> None:
    """The greatest of the pixels below a kernel of (width, height), `iterations` times."""
    _morph("dilate", src, out, kernel, iterations, border, value)


def flip(src: Pixels, out: Pixels, mode: int) -> None:
    """Mirror: 0 left and right, 1 top and bottom, 2 both."""
    check_same(src, out, "flip")
    if not 0 <= mode < len(_FLIPS):
        raise wrong(f"the flip mode is {mode}", "use 0 (horizontal), 1 (vertical) or 2 (both)")

    def work(source: Array, target: Array, _: PlaneSpec) -> None:
        into(movable(target), lambda dst: cv2().flip(movable(source), _FLIPS[mode], dst=dst))

    each_plane(src, out, work)


def rotate(src: Pixels, out: Pixels, angle: int) -> None:
    """Turn clockwise: 0 by 90, 1 by 180, 2 by 270 degrees. Chroma that is not halved both ways passes through 4:4:4."""
    check_formats(src, out, "rotate")
    if not 0 <= angle < len(_ROTATIONS):
        raise wrong(f"the rotation is {angle}", "use 0 (90 degrees), 1 (180) or 2 (270)")
    turned = (src.width, src.height) if angle == 1 else (src.height, src.width)
    if turned != (out.width, out.height):
        raise wrong(
            f"the picture of {src.width}x{src.height} turned is {turned[0]}x{turned[1]}, but the output is {out.width}x{out.height}",
            "swap width and height of the output for 90 and 270 degrees",
        )
    if angle != 1 and src.format.chroma[0] != src.format.chroma[1]:
        full = pixel_format(_SEMIPLANAR_444)
        whole = Pixels.empty(full, out.width, out.height)
        rotate(convert(src, full, csc.matrix(csc.DEFAULT)), whole, angle)
        convert(whole, out.format, csc.matrix(csc.DEFAULT), out)
        return
    code = getattr(cv2(), _ROTATIONS[angle])

    def work(source: Array, target: Array, _: PlaneSpec) -> None:
        into(movable(target), lambda dst: cv2().rotate(movable(source), code, dst=dst))

    each_plane(src, out, work)
