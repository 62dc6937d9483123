"""PriorBox: the default boxes of SSD over the cells of a feature map; they depend on shapes only."""

from __future__ import annotations

import math

import numpy as np

from softnpu.ops.common.builder import Array, Builder, OpError, Site
from softnpu.ops.common.inputs import ranks
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema(
    "PriorBox",
    ("x", "img"),
    attrs={
        "min_size": REQUIRED,
        "max_size": [],
        "aspect_ratio": [],
        "img_h": 0,
        "img_w": 0,
        "step_h": 0.0,
        "step_w": 0.0,
        "flip": True,
        "clip": False,
        "offset": 0.5,
        "variance": [0.1],
    },
    note="the result is [1, 2, boxes·4]: corners, then variances",
)

MAX_BOXES = 10_000_000


def lower(b: Builder, n: Site) -> str:
    ranks(n, 4, 4)
    rows, columns = n.shape(0)[2:]
    height, width = int(n.attr("img_h", 0)) or n.shape(1)[2], int(n.attr("img_w", 0)) or n.shape(1)[3]
    if min(rows, columns, height, width) < 1:
        raise OpError(
            f"PriorBox {n.name!r} needs to know the sizes of {list(n.shape(0))} and {list(n.shape(1))}; give fixed input shapes"
        )
    step_h, step_w = float(n.attr("step_h", 0)), float(n.attr("step_w", 0))
    if not step_h or not step_w:
        step_h, step_w = height / rows, width / columns
    offset = float(n.attr("offset", 0.5))
    half = np.array(sizes(n)) / 2
    if rows * columns * len(half) > MAX_BOXES:
        raise OpError(f"PriorBox {n.name!r} would make {rows * columns * len(half)} boxes; {MAX_BOXES} are the most")
    y, x = np.meshgrid((np.arange(rows) + offset) * step_h, (np.arange(columns) + offset) * step_w, indexing="ij")
    centre = np.stack([x, y], -1)[:, :, None, :]
    corners = np.concatenate([centre - half, centre + half], -1) / [width, height, width, height]
    if n.attr("clip", False):
        corners = corners.clip(0, 1)
    flat = corners.reshape(-1)
    return b.const(np.stack([flat, np.tile(variances(n), flat.size // 4)])[None].astype(np.float32))


def sizes(n: Site) -> list[tuple[float, float]]:
    """Width and height of the boxes of a cell, in the order of SSD."""
    smallest, largest = [float(size) for size in n.need("min_size")], [float(size) for size in n.attr("max_size", [])]
    if not smallest or min(smallest) <= 0 or (largest and len(largest) != len(smallest)):
        raise OpError(
            f"PriorBox {n.name!r} has min_size {smallest} and max_size {largest}; give positive sizes, as many of both"
        )
    boxes = []
    for index, small in enumerate(smallest):
        boxes.append((small, small))
        if largest:
            side = math.sqrt(small * largest[index])
            boxes.append((side, side))
        boxes += [(small * math.sqrt(ratio), small / math.sqrt(ratio)) for ratio in ratios(n)]
    return boxes


def ratios(n: Site) -> list[float]:
    """The aspect ratios beside 1, each once."""
    kept = [1.0]
    for listed in n.attr("aspect_ratio", []):
        ratio = float(listed)
        if ratio <= 0:
            raise OpError(f"PriorBox {n.name!r} has the aspect ratio {ratio}; it must be positive")
        if all(abs(ratio - earlier) >= 1e-6 for earlier in kept):
            kept += [ratio, 1 / ratio] if n.attr("flip", True) else [ratio]
    return kept[1:]


def variances(n: Site) -> Array:
    """Four variances."""
    listed = [float(number) for number in n.attr("variance") or [0.1]]
    if len(listed) not in (1, 4):
        raise OpError(f"PriorBox {n.name!r} has {len(listed)} variances; give 1 or 4")
    return np.array(listed * (4 // len(listed)))
