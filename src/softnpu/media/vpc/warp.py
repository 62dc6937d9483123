"""Warps: affine and perspective transforms, and remapping through tables in device memory.

A matrix maps source to output, as in OpenCV's `warpAffine` without WARP_INVERSE_MAP. A table (LUT) holds for each output
pixel the source position as two float32 (x, y). Sub-sampled chroma is warped in its own resolution: the chroma value i
stands for n luma pixels and lies in their middle, at n·i + (n - 1) / 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softnpu.media.doors import cv2
from softnpu.media.pixels.formats import PlaneSpec
from softnpu.media.pixels.picture import MAX_SIDE, Pixels
from softnpu.media.pixels.planes import Array
from softnpu.media.vpc._opencv import BLACK, each_plane, guarded, into, scalar
from softnpu.media.vpc.checks import CONSTANT, WRAP, border_code, check_formats, check_type, finite, wrong

Point = Sequence[float]
_INTERPOLATIONS = {"bilinear": "INTER_LINEAR", "nearest": "INTER_NEAREST"}
_ENTRY = 8  # bytes of a table entry: two float32
_DEGENERATE = 1e-14
_FAR = float(1 << 20)  # positions beyond are as far outside as any; OpenCV's fixed point overflows later


def _interpolation(name: str) -> int:
    if name not in _INTERPOLATIONS:
        raise wrong(f"the interpolation {name!r} is unknown to warps", f"use one of {', '.join(_INTERPOLATIONS)}")
    return int(getattr(cv2(), _INTERPOLATIONS[name]))


def _points(points: Sequence[Point], count: int, label: str) -> Array:
    array = np.asarray(points, np.float32)
    if array.shape != (count, 2):
        raise wrong(f"{len(points)} {label} points are given", f"give {count} points of x and y")
    finite(f"{label} points", *array.ravel().tolist())
    return array


def _check_invertible(matrix: Array) -> None:
    """Raise when a transform maps the plane onto a line: its determinant against what its rows could have at most."""
    most = float(np.prod(np.linalg.norm(matrix, axis=1)))
    if not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) <= _DEGENERATE * most:
        raise wrong(
            f"the transform {np.asarray(matrix).tolist()} cannot be inverted",
            "use points of which no three lie on one line, or another matrix",
        )


def _check_triangle(points: Array) -> None:
    """Raise when three points lie on one line."""
    _check_invertible(np.column_stack([points.astype(np.float64), np.ones(3)]))


def _square(matrix: Array) -> Array:
    """A 2x3 or 3x3 matrix as 3x3, checked."""
    array = np.asarray(matrix, np.float64)
    if array.shape not in ((2, 3), (3, 3)):
        raise wrong(f"the matrix has the shape {array.shape}", "give 2x3 or 3x3 numbers")
    if array.shape == (2, 3):
        array = np.vstack([array, [0.0, 0.0, 1.0]])
    _check_invertible(array)
    return array


def affine_transform(src_points: Sequence[Point], dst_points: Sequence[Point]) -> Array:
    """The 2x3 matrix that maps three source points to three output points."""
    source, target = _points(src_points, 3, "source"), _points(dst_points, 3, "output")
    _check_triangle(source)
    with guarded():
        return np.asarray(cv2().getAffineTransform(source, target))


def rotation_matrix(center: Point, angle: float, scale: float) -> Array:
    """The 2x3 matrix that turns by `angle` degrees against the clock about `center` and scales."""
    if len(center) != 2:
        raise wrong(f"the centre has {len(center)} coordinates", "give x and y")
    finite("centre, angle and scale", *center, angle, scale)
    with guarded():
        return np.asarray(cv2().getRotationMatrix2D((float(center[0]), float(center[1])), float(angle), float(scale)))


def _to_luma(spec: PlaneSpec) -> Array:
    """The 3x3 matrix from positions in a plane to positions in the picture."""
    return np.array([[spec.x, 0, (spec.x - 1) / 2], [0, spec.y, (spec.y - 1) / 2], [0, 0, 1]], np.float64)


def _check(src: Pixels, out: Pixels, function: str) -> None:
    check_formats(src, out, function)
    check_type(src.format, function)


def warp_affine(
    src: Pixels,
    out: Pixels,
    matrix: Array,
    interpolation: str = "bilinear",
    border: int = CONSTANT,
    value: Sequence[float] = BLACK,
) -> None:
    """Warp the whole of `src` into the whole of `out`. A 3x3 matrix whose last row is not 0 0 1 gives a perspective."""
    _check(src, out, "warp_affine")
    whole = _square(matrix)
    is_affine = bool((whole[2] == (0.0, 0.0, 1.0)).all())
    flags, code = _interpolation(interpolation), border_code(border, WRAP)

    def work(source: Array, target: Array, spec: PlaneSpec) -> None:
        move, edge = _to_luma(spec), scalar(spec, value)
        own = np.linalg.inv(move) @ whole @ move
        function = cv2().warpAffine if is_affine else cv2().warpPerspective
        size = (target.shape[1], target.shape[0])
        into(
            target,
            lambda dst: function(
                source, own[:2] if is_affine else own, size, dst=dst, flags=flags, borderMode=code, borderValue=edge
            ),
        )

    each_plane(src, out, work)


def lut_size(width: int, height: int) -> int:
    """Bytes of the table for an output of this size."""
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise wrong(f"a table for an output of {width}x{height} is asked for", f"use sides from 1 to {MAX_SIDE}")
    return _ENTRY * width * height


def _matrix_lut(matrix: Array, width: int, height: int) -> Array:
    """The table of a transform from source to output."""
    lut_size(width, height)
    _check_invertible(matrix)
    back = np.linalg.inv(matrix)
    x, y = np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64)[:, None]
    table = np.empty((height, width, 2), np.float32)
    weight = back[2, 0] * x + back[2, 1] * y + back[2, 2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for axis in range(2):
            table[:, :, axis] = (back[axis, 0] * x + back[axis, 1] * y + back[axis, 2]) / weight
    return table


def affine_lut(src_points: Sequence[Point], dst_points: Sequence[Point], out_w: int, out_h: int) -> Array:
    """The table of the affine transform that three pairs of points give."""
    return _matrix_lut(np.vstack([affine_transform(src_points, dst_points), [0.0, 0.0, 1.0]]), out_w, out_h)


def perspective_lut(src_points: Sequence[Point], dst_points: Sequence[Point], out_w: int, out_h: int) -> Array:
    """The table of the perspective that four pairs of points give."""
    source, target = _points(src_points, 4, "source"), _points(dst_points, 4, "output")
    for points in (source, target):
        for left_out in range(4):
            _check_triangle(np.delete(points, left_out, axis=0))
    with guarded():
        matrix = np.asarray(cv2().getPerspectiveTransform(source, target))
    return _matrix_lut(matrix, out_w, out_h)


def remap_lut(map1: Array, map2: Array) -> Array:
    """The table of a program's own maps: source x and source y for each output pixel, as `cv2.remap` takes them."""
    if map1.ndim != 2 or map1.shape != map2.shape or map1.size == 0:
        raise wrong(
            f"the maps have the shapes {map1.shape} and {map2.shape}", "give both (height, width) of the output"
        )
    return np.stack([np.asarray(map1, np.float32), np.asarray(map2, np.float32)], axis=2)


def _room(view: Array, size: int) -> Array:
    if view.dtype != np.uint8 or view.ndim != 1 or view.size < size:
        raise wrong(
            f"the memory of the table has {view.nbytes} bytes, the table takes {size}",
            "ask for the size of the table first",
        )
    return view[:size]


def write_lut(view: Array, lut: Array) -> None:
    """Put a table into memory, given as bytes."""
    if lut.ndim != 3 or lut.shape[2] != 2:
        raise wrong(
            f"the table has the shape {lut.shape}", "use one that affine_lut, perspective_lut or remap_lut made"
        )
    flat = np.ascontiguousarray(lut, np.float32).reshape(-1).view(np.uint8)
    _room(view, flat.size)[...] = flat


def read_lut(view: Array, width: int, height: int) -> Array:
    """The table in memory, for an output of this size; a view where the memory is aligned."""
    table = np.ascontiguousarray(_room(view, lut_size(width, height))).view(np.float32).reshape(height, width, 2)
    return table if table.flags.aligned else table.copy()


def _block_means(lut: Array, spec: PlaneSpec) -> Array:
    """The source positions of the plane's own values: the mean over the pixels that share a value."""
    height, width = lut.shape[:2]
    below, right = -height % spec.y, -width % spec.x
    with guarded():
        if below or right:
            lut = cv2().copyMakeBorder(lut, 0, below, 0, right, cv2().BORDER_REPLICATE)
        size = (lut.shape[1] // spec.x, lut.shape[0] // spec.y)
        means = np.asarray(cv2().resize(lut, size, interpolation=cv2().INTER_AREA))
    means -= ((spec.x - 1) / 2, (spec.y - 1) / 2)
    means /= (spec.x, spec.y)
    return means


def lut_remap(
    src: Pixels,
    out: Pixels,
    lut: Array,
    interpolation: str = "bilinear",
    border: int = CONSTANT,
    value: Sequence[float] = BLACK,
) -> None:
    """Fetch each pixel of `out` from where the table says; positions that are no numbers are outside."""
    _check(src, out, "lut_remap")
    if lut.shape != (out.height, out.width, 2):
        raise wrong(
            f"the table of the shape {lut.shape} does not fit the output of {out.width}x{out.height}",
            "make the table for the size of the output",
        )
    flags, code = _interpolation(interpolation), border_code(border, WRAP)
    near = np.clip(lut, -_FAR, _FAR, dtype=np.float32)
    with guarded():
        cv2().patchNaNs(near, -_FAR)
    tables: dict[tuple[int, int], Array] = {(1, 1): near}

    def work(source: Array, target: Array, spec: PlaneSpec) -> None:
        ways = (spec.x, spec.y)
        table = tables[ways] if ways in tables else tables.setdefault(ways, _block_means(near, spec))
        edge = scalar(spec, value)
        into(
            target,
            lambda dst: cv2().remap(source, table, None, flags, dst=dst, borderMode=code, borderValue=edge),
        )

    each_plane(src, out, work)
