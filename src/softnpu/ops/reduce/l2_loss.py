"""L2Loss: half the sum of the squares."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("L2Loss")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Mul", b.reduce("SumSquare", n.input(0), None, keepdims=False), b.scalar(0.5, n.dtype(0))))
