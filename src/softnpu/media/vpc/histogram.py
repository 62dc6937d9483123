"""Histograms, and the mapping of pixel values through tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softnpu.media.doors import cv2
from softnpu.media.pixels.formats import PlaneSpec
from softnpu.media.pixels.picture import Pixels
from softnpu.media.pixels.planes import Array, apart
from softnpu.media.vpc._opencv import CHANNEL_INDEX, guarded, into
from softnpu.media.vpc.checks import check_planes, check_same, check_type, wrong

_BYTES = frozenset({"uint8"})
_LEVELS = 256
_EXACT = 1 << 24  # OpenCV counts in float32, which is exact so far


def _count(plane: Array, channel: int) -> Array:
    """How often each value occurs in one channel of a plane."""
    total = np.zeros(_LEVELS, np.uint32)
    rows = max(1, _EXACT // plane.shape[1])
    with guarded():
        for top in range(0, plane.shape[0], rows):
            part = cv2().calcHist([plane[top : top + rows]], [channel], None, [_LEVELS], [0, _LEVELS])
            total += part.reshape(-1).astype(np.uint32)
    return total


def _channels(src: Pixels) -> Iterator[tuple[int, Array, int]]:
    """(row of the result, plane, channel in the plane) for all colour values that belong to the picture."""
    for plane, spec in zip(src.planes, src.format.planes, strict=True):
        for channel, name in enumerate(spec.channels):
            if name in "ax":
                continue
            is_second = src.format.packed and name in spec.channels[:channel]
            part = plane[:, : src.width // 2] if is_second else plane  # an odd row ends within its last pair
            if part.size:
                yield CHANNEL_INDEX[name], part, channel


def histogram(src: Pixels) -> Array:
    """Counts as uint32 (3, 256): y or r, u or g, v or b. Chroma is counted as stored, YUV400 has only the first row."""
    check_planes(src, "input of calc_hist")
    check_type(src.format, "calc_hist", _BYTES)
    counts = np.zeros((3, _LEVELS), np.uint32)
    for row, plane, channel in _channels(src):
        counts[row] += _count(plane, channel)
    return counts


def _table(spec: PlaneSpec, lut: Array) -> Array:
    """The rows of `lut` for the channels of a plane; alpha stays as it is."""
    same = np.arange(_LEVELS, dtype=np.uint8)
    rows = [same if name in "ax" else lut[CHANNEL_INDEX[name]] for name in spec.channels]
    return rows[0] if len(rows) == 1 else np.stack(rows, axis=1).reshape(1, _LEVELS, len(rows))


def equalize(src: Pixels, out: Pixels, lut: Array) -> None:
    """Map every value through the table of its channel: `lut` is uint8 (3, 256), rows as in `histogram`."""
    check_same(src, out, "equalize_hist")
    check_type(src.format, "equalize_hist", _BYTES)
    if lut.shape != (3, _LEVELS) or lut.dtype != np.uint8:
        raise wrong(f"the tables are {lut.dtype} of the shape {lut.shape}", "give 3 tables of 256 bytes")
    src = apart(src, out)
    for source, target, spec in zip(src.planes, out.planes, src.format.planes, strict=True):
        table = _table(spec, lut)
        into(target, lambda dst, source=source, table=table: cv2().LUT(source, table, dst=dst))  # type: ignore[misc]
