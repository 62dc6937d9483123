"""Transpose: the dims of x in another order."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Transpose", ("x", "perm"), note="perm must be a constant")


def lower(b: Builder, n: Site) -> str:
    return b.transpose(n.input(0), ints(n, 1))
