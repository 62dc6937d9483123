"""Mish: x·tanh(log(1 + e^x))."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Mish")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Mul", n.input(0), b.op("Tanh", b.op("Softplus", n.input(0)))))
