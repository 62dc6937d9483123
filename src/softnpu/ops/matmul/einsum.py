"""Einsum: a sum of products, written as an equation."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Einsum", ("x*",), attrs={"equation": REQUIRED, "N": 0})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Einsum", *(n.input(i) for i in range(len(n.inputs))), equation=str(n.need("equation"))))
