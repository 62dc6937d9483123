"""Celu: max(0, alpha3 · x) + min(0, alpha1 · (exp(x / alpha2) - 1))."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import number
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Celu", attrs={"alpha1": 1.0, "alpha2": 1.0, "alpha3": 1.0})


def lower(b: Builder, n: Site) -> str:
    x, zero = n.input(0), number(b, n, 0.0)
    first, second, third = (number(b, n, float(n.attr(f"alpha{i}", 1.0))) for i in (1, 2, 3))
    below = b.op("Sub", b.op("Exp", b.op("Div", b.op("Min", x, zero), second)), number(b, n, 1.0))
    return str(b.op("Add", b.op("Max", b.op("Mul", x, third), zero), b.op("Min", b.op("Mul", below, first), zero)))
