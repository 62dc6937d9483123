"""MVN: mean 0 and, where asked, deviation 1 in every channel or in all together."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("MVN", attrs={"normalize_variance": True, "across_channels": False, "eps": 1e-9})


def lower(b: Builder, n: Site) -> str:
    if n.rank() < 3:
        raise OpError(f"MVN {n.name!r} has an input of {n.rank()} dims; it must have batch, channel and others")
    axes = list(range(1 if n.attr("across_channels", False) else 2, n.rank()))
    x = b.op("Sub", n.input(0), b.reduce("Mean", n.input(0), axes))
    if not n.attr("normalize_variance", True):
        return str(x)
    deviation = b.op("Sqrt", b.reduce("Mean", b.op("Mul", x, x), axes))
    return str(b.op("Div", x, b.op("Add", deviation, b.scalar(float(n.attr("eps", 1e-9)), max(n.dtype(), 0)))))
