"""Iou: overlap of each box [n, 4] with each ground truth [m, 4], as [m, n]. Every step is rounded to float16, as on the chip.

In NumPy, because an engine is free to keep more bits between two operators of float16.
"""

from __future__ import annotations

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.detection._iou import mode_of

SCHEMA = Schema(
    "Iou",
    ("bboxes", "gtboxes"),
    ("overlap",),
    {"mode": "iou", "eps": 0.01, "aligned": False},
    note="aligned must be False",
)
_SCALE = 0.01  # of one side: keeps areas inside float16
_MOST = np.float16(65504)


def _half(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def _area(width: Array, height: Array) -> Array:
    scaled = _half(width.astype(np.float32) * np.float32(_SCALE)).astype(np.float32)
    return np.minimum(_half(scaled * height.astype(np.float32)), _MOST)


def _sides(low: Array, high: Array, eps: float) -> Array:
    return _half((high - low).astype(np.float32) + np.float32(eps))


def compute(n: Site, boxes: Array, gts: Array) -> tuple[Array, ...]:
    if n.attr("aligned", False):
        raise OpError(f"Iou {n.name!r} has aligned=True; compare every pair and take the diagonal")
    eps = float(n.attr("eps", 0.01))
    x0, y0, x1, y1 = _half(boxes).T
    left, top, right, bottom = _half(gts).T[:, :, None]
    zero = np.float16(0)
    with np.errstate(all="ignore"):
        width = np.maximum(np.minimum(x1, right) - np.maximum(x0, left), zero)
        height = np.maximum(np.minimum(y1, bottom) - np.maximum(y0, top), zero)
        inner = _area(width, height)
        of_gt = _area(_sides(left, right, eps), _sides(top, bottom, eps))
        of_boxes = _area(_sides(x0, x1, eps), _sides(y0, y1, eps))
        below = of_boxes + of_gt - inner if mode_of(n) == 0 else of_gt
        return ((inner / below).astype(boxes.dtype),)


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    return [(n.dtype(0), (n.shape(1)[0], n.shape(0)[0]))]
