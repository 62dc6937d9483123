"""RmsNorm: x over its root mean square, times gamma; the second output is the factor, in float32."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow, wide
from softnpu.ops.common.schema import Schema
from softnpu.ops.norm._norms import inverse_spread

SCHEMA = Schema("RmsNorm", ("x", "gamma"), ("y", "rstd"), {"epsilon": 1e-6})


def lower(b: Builder, n: Site) -> tuple[str, str]:
    return normalise(b, n, wide(b, n), 1)


def normalise(b: Builder, n: Site, x: str, gamma: int) -> tuple[str, str]:
    """The two results for a value; `gamma` is the index of that input."""
    rank = n.rank(0)
    square = b.reduce("Mean", str(b.op("Mul", x, x)), range(rank - n.rank(gamma), rank))
    rstd = inverse_spread(b, n, square, float(n.attr("epsilon", 1e-6)))
    return narrow(b, n, str(b.op("Mul", b.op("Mul", x, rstd), wide(b, n, gamma)))), rstd
