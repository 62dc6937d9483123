"""SwiGlu: swish of the first half of a dim, times the second half."""

from softnpu.ops.activation._activations import halves, swish
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("SwiGlu", attrs={"dim": -1})


def lower(b: Builder, n: Site) -> str:
    left, right = halves(b, n, int(n.attr("dim", -1)))
    return str(b.op("Mul", swish(b, n, left), right))
