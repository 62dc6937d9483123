"""Axpy: x1 + alpha · x2."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import number
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Axpy", ("x1", "x2"), attrs={"alpha": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Add", n.input(0), b.op("Mul", n.input(1), number(b, n, float(n.need("alpha"))))))
