"""FusedMulAdd: x1 · x2 + x3."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("FusedMulAdd", ("x1", "x2", "x3"))


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Add", b.op("Mul", n.input(0), n.input(1)), n.input(2)))
