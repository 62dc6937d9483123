"""Pooling exactly as Caffe does it: sizes rounded up, windows clipped to the padded area."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site


@dataclass(frozen=True)
class Axis:
    """The windows along one dim."""

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    count: int

    @property
    def missing(self) -> int:
        """How far the last window reaches past the tensor."""
        return max((self.count - 1) * self.stride + self.kernel - self.size - self.before, 0)

    def lengths(self) -> list[int]:
        """The length of every window inside the padded area."""
        starts = [index * self.stride - self.before for index in range(self.count)]
        return [min(start + self.kernel, self.size + self.after) - start for start in starts]


def plan(n: Site, size: int, kernel: int, stride: int, pads: Sequence[int], ceil: bool) -> Axis:
    """Caffe's rule: with padding, a window that would start outside the tensor and its padding before is left out."""
    before, after = pads
    if size < 1 or min(kernel, stride) < 1 or min(pads) < 0 or max(pads) >= kernel or size + before + after < kernel:
        raise OpError(
            f"{n.type} {n.name!r} has windows of {kernel} every {stride} over {size} with padding {before} and {after}; the size must be "
            "known, numbers positive, padding smaller than the window, and one window must fit"
        )
    room = size + before + after - kernel
    count = (-(-room // stride) if ceil else room // stride) + 1
    if (before or after) and (count - 1) * stride >= size + before:
        count -= 1
    if (count - 1) * stride >= size + before:
        raise OpError(
            f"{n.type} {n.name!r} has windows of {kernel} every {stride} over {size}: the last one lies outside; use a smaller stride"
        )
    return Axis(size, kernel, stride, before, after, count)


def pool(b: Builder, x: str, rows: Axis, columns: Axis, average: bool, dtype: int = 0) -> str:
    """Max or average over the windows of both axes of an NCHW tensor."""
    attrs: dict[str, Any] = {
        "kernel_shape": [rows.kernel, columns.kernel],
        "strides": [rows.stride, columns.stride],
        "pads": [rows.before, columns.before, rows.missing, columns.missing],
    }
    if not average:
        return str(b.op("MaxPool", x, **attrs))
    averages = str(b.op("AveragePool", x, count_include_pad=1, **attrs))
    areas = np.outer(rows.lengths(), columns.lengths())
    full = rows.kernel * columns.kernel
    return (
        averages
        if (areas == full).all()
        else str(b.op("Mul", averages, b.const(full / areas[None, None], max(dtype, 0))))
    )
