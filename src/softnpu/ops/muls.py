"""Muls: x times a number."""

from softnpu.ops._activations import number
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("Muls", attrs={"value": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Mul", n.input(0), number(b, n, float(n.need("value")))))
