"""IsFinite: whether an element is a finite number."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("IsFinite")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Not", b.op("Or", b.op("IsNaN", n.input(0)), b.op("IsInf", n.input(0)))))
