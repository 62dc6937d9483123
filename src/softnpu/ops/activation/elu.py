"""Elu: x where positive, alpha·(e^x - 1) where not."""

from softnpu.ops.common.bodies import through
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import DOUBLES
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Elu", attrs={"alpha": 1.0, "scale": 1.0, "input_scale": 1.0})


def lower(b: Builder, n: Site) -> str:
    alpha, scale, inner = (float(n.attr(attribute, 1.0)) for attribute in ("alpha", "scale", "input_scale"))
    x = n.input(0)
    if inner != 1.0:  # only the exponent is scaled
        low = b.op("Min", b.op("Mul", x, b.scalar(inner, n.dtype(0))), b.scalar(0, n.dtype(0)))
        activated = b.op("Add", b.op("Max", x, b.scalar(0, n.dtype(0))), b.op("Elu", low, alpha=alpha))
    else:
        activated = through(b, n, 1, DOUBLES, lambda y: str(b.op("Elu", y, alpha=alpha)))
    return str(activated) if scale == 1.0 else str(b.op("Mul", activated, b.scalar(scale, n.dtype(0))))
