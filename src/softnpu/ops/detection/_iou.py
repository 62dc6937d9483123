"""Overlap of upright boxes in its generalised, distance and complete forms: columns [4, n] against [4, m].

Boxes are corners, or with `trans` centre, width and height; `is_cross` compares each with each. Halves are computed in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT
from softnpu.ops.common.precision import wide
from softnpu.ops.common.schema import REQUIRED

ATTRS = {"trans": False, "is_cross": True, "mode": REQUIRED}
_TINY = 1e-9  # what 0/0 is divided by, for boxes without area
_MODES = {"iou": 0, "iof": 1}


@dataclass
class Pairs:
    """The names of what the three forms are made of."""

    iou: str
    union: str
    hull: tuple[str, str]  # width and height
    distance: str  # of the centres, squared
    sides: tuple[str, str]
    gt_sides: tuple[str, str]


def mode_of(n: Site) -> int:
    """0 divides by the union, 1 by the area of the ground truth; CANN writes words, torch_npu numbers."""
    listed = n.attr("mode", 0)
    mode = _MODES.get(listed, listed) if isinstance(listed, str) else int(listed)
    if mode not in (0, 1):
        raise OpError(f"{n.type} {n.name!r} has the mode {listed!r}; use 'iou' (0) or 'iof' (1)")
    return int(mode)


def _corners(b: Builder, n: Site, index: int, shape: list[int]) -> list[str]:
    rows = [b.reshape(corner, shape) for corner in b.split(wide(b, n, index), [1, 1, 1, 1], 0)]
    if not n.attr("trans", False):
        return rows
    x, y, width, height = rows
    half = b.scalar(0.5, FLOAT)
    across, down = (str(b.op("Mul", side, half)) for side in (width, height))
    return [str(b.op(word, at, by)) for word in ("Sub", "Add") for at, by in ((x, across), (y, down))]


def pairs(b: Builder, n: Site, cross: bool) -> Pairs:
    """Everything about the boxes of input 0 and those of input 1: [1, n], or [m, n] with `cross`."""
    box = _corners(b, n, 0, [1, -1])
    gt = _corners(b, n, 1, [-1, 1] if cross else [1, -1])
    sides, gt_sides = ([str(b.op("Sub", corners[i + 2], corners[i])) for i in (0, 1)] for corners in (box, gt))
    inner, hull = [], []
    for i in (0, 1):
        lows, highs = (box[i], gt[i]), (box[i + 2], gt[i + 2])
        gap = str(b.op("Sub", b.op("Min", *highs), b.op("Max", *lows)))
        inner.append(b.clip(gap, 0.0, None, FLOAT))
        hull.append(str(b.op("Sub", b.op("Max", *highs), b.op("Min", *lows))))
    shared, of_gt = b.op("Mul", *inner), b.op("Mul", *gt_sides)
    union = str(b.op("Sub", b.op("Add", b.op("Mul", *sides), of_gt), shared))
    iou = str(b.op("Div", shared, above(b, union if mode_of(n) == 0 else str(of_gt))))
    return Pairs(
        iou, union, (hull[0], hull[1]), _distance(b, box, gt), (sides[0], sides[1]), (gt_sides[0], gt_sides[1])
    )


def above(b: Builder, x: str) -> str:
    """x, or next to nothing where it is less."""
    return b.clip(x, _TINY, None, FLOAT)


def _distance(b: Builder, box: list[str], gt: list[str]) -> str:
    parts = []
    for i in (0, 1):
        apart = b.op("Sub", b.op("Add", box[i], box[i + 2]), b.op("Add", gt[i], gt[i + 2]))
        parts.append(b.op("Mul", apart, apart))
    return str(b.op("Mul", b.op("Add", *parts), b.scalar(0.25, FLOAT)))


def giou(b: Builder, p: Pairs) -> str:
    """Less the share of the hull that neither box covers."""
    hull = above(b, str(b.op("Mul", *p.hull)))
    return str(b.op("Sub", p.iou, b.op("Div", b.op("Sub", hull, p.union), hull)))


def diou(b: Builder, p: Pairs) -> str:
    """Less the distance of the centres over the diagonal of the hull."""
    diagonal = above(b, str(b.op("Add", *(b.op("Mul", side, side) for side in p.hull))))
    return str(b.op("Sub", p.iou, b.op("Div", p.distance, diagonal)))


def ciou(b: Builder, p: Pairs) -> tuple[str, str]:
    """diou less a term for the aspect; and the difference of the angles."""
    angles = [b.op("Atan", b.op("Div", width, above(b, height))) for width, height in (p.gt_sides, p.sides)]
    angle = str(b.op("Sub", *angles))
    aspect = b.op("Mul", b.op("Mul", angle, angle), b.scalar(4 / math.pi**2, FLOAT))
    rest = b.op("Add", b.op("Sub", b.scalar(1.0, FLOAT), p.iou), aspect)
    weight = b.op("Div", aspect, above(b, str(rest)))
    return str(b.op("Sub", diou(b, p), b.op("Mul", weight, aspect))), angle
