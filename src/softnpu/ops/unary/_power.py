"""scale·x + shift, the inner part of Exp and Log."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, Site


def affine(b: Builder, n: Site) -> str:
    """The first input times `scale` plus `shift`; nothing is computed for 1 and 0."""
    scale, shift = float(n.attr("scale", 1.0)), float(n.attr("shift", 0.0))
    x = n.input(0)
    if scale != 1.0:
        x = str(b.op("Mul", x, b.scalar(scale, n.dtype(0))))
    if shift != 0.0:
        x = str(b.op("Add", x, b.scalar(shift, n.dtype(0))))
    return x
