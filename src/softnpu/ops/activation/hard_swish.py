"""HardSwish: x · min(max(x + 3, 0), 6) / 6."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("HardSwish")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Mul", n.input(0), b.op("HardSigmoid", n.input(0), alpha=1 / 6, beta=0.5)))
