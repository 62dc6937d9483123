"""Filters, flips and rotations: OpenCV's function of the same name on each plane, the chroma in its own resolution.

The kernel limits of the chip (sides 1, 3, 5) hold in every mode: with another kernel OpenCV would compute something for which
no chip gives a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from softnpu.media.doors import cv2
from softnpu.media.pixels import csc
from softnpu.media.pixels.convert import convert
from softnpu.media.pixels.formats import PlaneSpec, pixel_format
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import Array, movable
from softnpu.media.vpc._opencv import BLACK, each_plane, guarded, into, scalar
from softnpu.media.vpc.checks import (
    ARITHMETIC,
    CONSTANT,
    border_code,
    check_formats,
    check_same,
    check_type,
    finite,
    wrong,
)

_SEMIPLANAR_444 = 5
_KERNEL_SIDES = (1, 3, 5)
_MAX_ITERATIONS = 100
_FLIPS = (1, 0, -1)  # horizontal, vertical, both: the codes of cv2.flip
_ROTATIONS = ("ROTATE_90_CLOCKWISE", "ROTATE_180", "ROTATE_90_COUNTERCLOCKWISE")


def limits(kernel: tuple[int, int], iterations: int = 1, most: int = _MAX_ITERATIONS) -> None:
    """Raise unless kernel and iterations are such as the chip's filters take."""
    if kernel[0] not in _KERNEL_SIDES or kernel[1] not in _KERNEL_SIDES:
        raise wrong(f"the kernel is {kernel[0]}x{kernel[1]}", "use 1, 3 or 5 for its width and its height")
    if not 1 <= iterations <= most:
        raise wrong(
            f"{iterations} iterations are asked for", f"use 1 to {most}" if most > 1 else "this filter runs once: use 1"
        )


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
