"""Resizing images exactly as TensorFlow does."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, first, format_of, spatial_dims
from softnpu.ops.common.inputs import int64, known

ATTRS = {"align_corners": False, "half_pixel_centers": False, "data_format": ""}


def flags(n: Site) -> tuple[bool, bool]:
    """align_corners and half_pixel_centers, of which one may be set."""
    corners, centres = bool(n.attr("align_corners", False)), bool(n.attr("half_pixel_centers", False))
    if corners and centres:
        raise OpError(f"{n.type} {n.name!r} has both align_corners and half_pixel_centers; only one may be true")
    return corners, centres


def wanted(n: Site) -> tuple[int, int] | None:
    """Height and width of the result, where they are known."""
    size = known(n, 1)
    if size is None:
        return None
    if size.size != 2 or size.min() < 1:
        raise OpError(f"{n.type} {n.name!r} has the size {size.tolist()}; give a positive height and width")
    height, width = (int(side) for side in size.reshape(-1))
    return height, width


MANY = 1 << 16  # rows for which a list of places would be too long


def nearest_rows(size: int, result: int, corners: bool, centres: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which rows of the source the rows of the result take; in float32, since the rounding decides which one is taken."""
    float32 = np.float32
    scale = float32(size - 1) / float32(result - 1) if corners and result > 1 else float32(size) / float32(result)
    at = np.arange(result, dtype=float32)
    if centres:
        at = at + float32(0.5)
    at = at * scale
    at = np.floor(at + float32(0.5)) if corners else np.floor(at)
    return np.clip(at, 0, size - 1).astype(np.int64)


def resize(b: Builder, n: Site, x: str, mode: str, transform: str, rounding: str | None = None) -> str:
    """ONNX's Resize over height and width."""
    if b.opset < 11:
        raise OpError(f"{n.type} {n.name!r} needs ONNX opset 11 or newer; export the model with a newer opset")
    layout = format_of(n, "NHWC")
    spatial_dims(n, 0, layout)  # refuses another rank
    x = first(b, x, layout)
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform, "nearest_mode": rounding}
    size = wanted(n)
    batch, channels = n.shape(0)[0], n.shape(0)[layout.index("C")]
    empty = None if b.opset >= 13 else b.const(np.zeros(0, np.float32))
    if size is not None and batch >= 0 and channels >= 0:
        sizes = b.const(np.array([batch, channels, *size], np.int64))
    else:  # ONNX has `axes` for this, but engines lose the sizes when they move a transposition past it
        pair = int64(b, n, 1) if size is None else b.const(np.array(size, np.int64))
        sizes = str(b.op("Concat", b.slice(str(b.op("Shape", x)), [0], [2], [0]), pair, axis=0))
    return back(b, str(b.op("Resize", x, empty, empty, sizes, **attrs)), layout)
