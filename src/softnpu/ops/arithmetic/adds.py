"""Adds: x plus a number."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import number
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Adds", attrs={"value": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Add", n.input(0), number(b, n, float(n.need("value")))))
