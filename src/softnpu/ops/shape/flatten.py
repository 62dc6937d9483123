"""Flatten: the dims before an axis become one, those from it on another."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Flatten", attrs={"axis": 1})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Flatten", n.input(0), axis=int(n.attr("axis", 1))))
