"""Adds: x plus a number."""

from softnpu.ops._activations import number
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("Adds", attrs={"value": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Add", n.input(0), number(b, n, float(n.need("value")))))
