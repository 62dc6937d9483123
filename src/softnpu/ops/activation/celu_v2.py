"""CeluV2: max(0, x) + min(0, alpha · (exp(x / alpha) - 1))."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import number
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("CeluV2", attrs={"alpha": 1.0})


def lower(b: Builder, n: Site) -> str:
    x, zero, alpha = n.input(0), number(b, n, 0.0), number(b, n, float(n.attr("alpha", 1.0)))
    below = b.op("Sub", b.op("Exp", b.op("Div", b.op("Min", x, zero), alpha)), number(b, n, 1.0))
    return str(b.op("Add", b.op("Max", x, zero), b.op("Min", b.op("Mul", below, alpha), zero)))
