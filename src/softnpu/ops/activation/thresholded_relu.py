"""ThresholdedRelu: x where it is larger than alpha, 0 elsewhere."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import number
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("ThresholdedRelu", attrs={"alpha": 1.0})


def lower(b: Builder, n: Site) -> str:
    above = b.op("Greater", n.input(0), number(b, n, float(n.attr("alpha", 1.0))))
    return str(b.op("Where", above, n.input(0), number(b, n, 0.0)))
