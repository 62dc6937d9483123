"""Chroma of one sub-sampling in another: repeated where there was less of it, averaged where there was more."""

from __future__ import annotations

import numpy as np

from softnpu.media.doors import cv2
from softnpu.media.pixels.planes import Array, merge, scratch, settle, split

Steps = tuple[int, int]  # by what width and height are divided


def resample(chroma: Array, source: Steps, target: Steps, shape: tuple[int, int], name: str) -> Array:
    """A chroma channel with `target` steps and this shape; `name` tells the scratch memory of U from that of V."""
    chroma = average(chroma, max(1, target[0] // source[0]), max(1, target[1] // source[1]), name)
    chroma = _repeat_columns(chroma, max(1, source[0] // target[0]), shape[1], name)
    return _repeat_rows(chroma, max(1, source[1] // target[1]), shape[0], name)


def _repeat_columns(chroma: Array, times: int, columns: int, name: str) -> Array:
    """Each value `times` times side by side, as many columns as asked for."""
    if times == 1:
        return chroma
    rows, width = chroma.shape
    wide = scratch(f"columns {name}", (rows, width, times))
    merge([chroma] * times, wide)  # copies as channels are copies side by side
    return wide.reshape(rows, width * times)[:, :columns]


def _repeat_rows(chroma: Array, times: int, rows: int, name: str) -> Array:
    if times == 1:
        return chroma
    tall = scratch(f"rows {name}", (rows, chroma.shape[1]))
    for phase in range(times):
        part = tall[phase::times]
        np.copyto(part, chroma[: part.shape[0]])
    return tall


def average(chroma: Array, across: int, down: int, name: str) -> Array:
    """The mean of blocks, half a level going up. A block that leaves the picture counts the last column or row again."""
    if across == down == 1:
        return chroma
    rows, columns = chroma.shape
    if rows % down or columns % across:
        chroma = np.pad(chroma, ((0, -rows % down), (0, -columns % across)), "edge")
    rows, columns = chroma.shape[0] // down, chroma.shape[1] // across
    out = scratch(f"mean {name}", (rows, columns))
    if (across, down) == (2, 2):
        return settle(cv2().resize(chroma, (columns, rows), dst=out, interpolation=cv2().INTER_AREA), out)
    if (across, down) == (1, 2):
        return _mean_of_two(chroma[0::2], chroma[1::2], out)
    if (across, down) == (2, 1):
        left, right = scratch("left", (rows, columns)), scratch("right", (rows, columns))
        split(chroma.reshape(rows, columns, 2), [left, right])
        return _mean_of_two(left, right, out)
    total = chroma.reshape(rows, down, columns, across).sum((1, 3), np.uint16)
    count = across * down
    np.copyto(out, (total + count // 2) // count, casting="unsafe")
    return out


def _mean_of_two(first: Array, second: Array, out: Array) -> Array:
    """(a + b + 1) / 2 without a wider type: all bits of both, less half of those that differ."""
    differing = scratch("differing", out.shape)
    np.bitwise_xor(first, second, out=differing)
    np.right_shift(differing, 1, out=differing)
    np.bitwise_or(first, second, out=out)
    np.subtract(out, differing, out=out)
    return out
