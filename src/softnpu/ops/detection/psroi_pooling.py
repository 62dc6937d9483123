"""PSROIPooling: averages in the bins of every region, each bin from channels of its own (the layer of R-FCN)."""

from __future__ import annotations

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape, Site
from softnpu.ops.common.inputs import ranks
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.detection._rois import count

SCHEMA = Schema(
    "PSROIPooling",
    ("x", "rois"),
    attrs={"output_dim": REQUIRED, "group_size": REQUIRED, "spatial_scale": REQUIRED},
    note="regions are [count, 5] or [batch, 5, count]",
)
_SMALLEST = 0.1


def compute(n: Site, x: Array, rois: Array) -> tuple[Array, ...]:
    out, group = int(n.need("output_dim")), int(n.need("group_size"))
    scale = float(n.need("spatial_scale"))
    regions = rois.transpose(0, 2, 1).reshape(-1, 5) if rois.ndim == 3 else rois
    height, width = x.shape[2:]
    averages = np.zeros((len(regions), out, group, group), x.dtype)
    maps = x.reshape(len(x), out, group, group, height, width)
    for index, (image, *corners) in enumerate(regions.astype(np.float64)):
        x1, y1, x2, y2 = (_round(corner) for corner in corners)
        columns = _bins(x1 * scale, (x2 + 1) * scale, group, width)
        rows = _bins(y1 * scale, (y2 + 1) * scale, group, height)
        for row, (top, bottom) in enumerate(rows):
            for column, (left, right) in enumerate(columns):
                if bottom > top and right > left:
                    averages[index, :, row, column] = maps[int(image), :, row, column, top:bottom, left:right].mean(
                        axis=(1, 2)
                    )
    return (averages,)


def _round(value: float) -> float:
    """Half away from zero, as C does it."""
    return float(np.copysign(np.floor(abs(value) + 0.5), value))


def _bins(start: float, end: float, many: int, size: int) -> list[tuple[int, int]]:
    step = max(end - start, _SMALLEST) / many
    edges = [(int(np.floor(index * step + start)), int(np.ceil((index + 1) * step + start))) for index in range(many)]
    return [(min(max(low, 0), size), min(max(high, 0), size)) for low, high in edges]


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    ranks(n, 4)
    if n.rank(1) not in (2, 3) or n.shape(1)[1] != 5:
        raise OpError(
            f"PSROIPooling {n.name!r} has regions of shape {list(n.shape(1))}; give [count, 5] or [batch, 5, count]"
        )
    out, group, channels = int(n.need("output_dim")), int(n.need("group_size")), n.shape(0)[1]
    if min(out, group) < 1 or channels != out * group * group:
        raise OpError(
            f"PSROIPooling {n.name!r} makes {out} channels of {group}x{group} bins out of {channels}; the product must be equal"
        )
    return [(n.dtype(), (count(n), out, group, group))]
