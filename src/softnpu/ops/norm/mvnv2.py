"""MVNV2: x less its mean, over its standard deviation, both taken over axes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import number
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("MVNV2", attrs={"eps": 1e-9, "axes": (0, 2, 3)})


def lower(b: Builder, n: Site) -> str:
    axes = [int(axis) for axis in n.attr("axes", (0, 2, 3))]
    centred = b.op("Sub", n.input(0), b.reduce("Mean", n.input(0), axes))
    spread = b.op("Sqrt", b.reduce("Mean", str(b.op("Mul", centred, centred)), axes))
    return str(b.op("Div", centred, b.op("Add", spread, number(b, n, float(n.attr("eps", 1e-9))))))
