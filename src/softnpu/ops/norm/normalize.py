"""Normalize: x divided by its L2 norm, times a scale per channel (the layer of SSD)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Normalize", ("x1", "x2"), attrs={"across_spatial": True, "channel_shared": True, "eps": 1e-10})


def lower(b: Builder, n: Site) -> str:
    if n.rank() < 2:
        raise OpError(f"Normalize {n.name!r} has an input of {n.rank()} dims; it must have batch and channel")
    x, dtype = n.input(0), max(n.dtype(), 0)
    axes = list(range(1, n.rank())) if n.attr("across_spatial", True) else [1]
    total = b.op("Add", b.reduce("SumSquare", x, axes), b.scalar(float(n.attr("eps", 1e-10)), dtype))
    scale = b.reshape(n.input(1), [-1, *([1] * (n.rank() - 2))])
    return str(b.op("Mul", b.op("Div", x, b.op("Sqrt", total)), scale))
