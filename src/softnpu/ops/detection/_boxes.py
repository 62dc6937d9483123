"""Boxes (x1, y1, x2, y2) of detection operators: overlap and suppression."""

from __future__ import annotations

import numpy as np

from softnpu.ops.common.builder import Array


def overlaps(box: Array, others: Array, edge: float = 0.0) -> Array:
    """Intersection over union of a box with others; `edge` is 1 where the last pixel belongs to a box."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    inner = np.prod(np.maximum(high - low + edge, 0), axis=1)
    area = np.prod(np.maximum(box[2:] - box[:2] + edge, 0))
    areas = np.prod(np.maximum(others[:, 2:] - others[:, :2] + edge, 0), axis=1)
    union = area + areas - inner
    return np.asarray(np.divide(inner, union, out=np.zeros_like(inner), where=union > 0))


def suppress(
    boxes: Array, scores: Array, threshold: float, limit: int = -1, edge: float = 0.0, eta: float = 1.0
) -> list[int]:
    """Which boxes stay, best first: each takes away later ones that overlap it by more than the threshold.

    `limit` bounds how many candidates are looked at; with `eta` below 1 the threshold shrinks as boxes are kept."""
    order = np.argsort(-scores, kind="stable")
    if limit > 0:
        order = order[:limit]
    if eta < 1.0:
        return _adaptive(boxes, order, threshold, edge, eta)
    kept: list[int] = []
    while order.size:
        best = int(order[0])
        kept.append(best)
        rest = order[1:]
        order = rest[overlaps(boxes[best], boxes[rest], edge) <= threshold]
    return kept


def _adaptive(boxes: Array, order: Array, threshold: float, edge: float, eta: float) -> list[int]:
    kept: list[int] = []
    for index in order:
        if not kept or overlaps(boxes[index], boxes[kept], edge).max() <= threshold:
            kept.append(int(index))
            if threshold > 0.5:
                threshold *= eta
    return kept
