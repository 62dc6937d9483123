"""Mish: x·tanh(log(1 + e^x))."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("Mish")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Mul", n.input(0), b.op("Tanh", b.op("Softplus", n.input(0)))))
