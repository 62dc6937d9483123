"""Round: the nearest number with so many decimals, halves to the even one."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Round", attrs={"decimals": 0})


def lower(b: Builder, n: Site) -> str:
    decimals = int(n.attr("decimals", 0))
    if not decimals:
        return str(b.op("Round", n.input(0)))
    factor = b.scalar(10.0**decimals, n.dtype(0))
    return str(b.op("Div", b.op("Round", b.op("Mul", n.input(0), factor)), factor))
