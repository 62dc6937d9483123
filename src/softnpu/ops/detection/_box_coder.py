"""What the two box coders of Faster R-CNN share: centres and sizes in pixels, means and deviations."""

from __future__ import annotations

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT


def four(n: Site, attribute: str, default: float) -> list[float]:
    """Four numbers: a list under CANN's name, or one by one under the names of torch_npu (means0 …)."""
    listed = n.attr(attribute)
    numbers = (
        [float(number) for number in listed]
        if listed
        else [float(n.attr(f"{attribute}{i}", default)) for i in range(4)]
    )
    if len(numbers) != 4:
        raise OpError(f"{n.type} {n.name!r} has {len(numbers)} {attribute}; it needs 4")
    return numbers


def row(b: Builder, values: list[float]) -> str:
    """A constant of float32."""
    return b.const(np.array(values, np.float32))


def centres(b: Builder, boxes: str) -> tuple[str, str]:
    """The centre and the size (+1: the last pixel belongs to the box) of rows x0, y0, x1, y1, as [n, 2] each."""
    low, high = b.slice(boxes, [0], [2], [1]), b.slice(boxes, [2], [4], [1])
    centre = b.op("Mul", b.op("Add", low, high), b.scalar(0.5, FLOAT))
    return str(centre), str(b.op("Add", b.op("Sub", high, low), b.scalar(1.0, FLOAT)))
