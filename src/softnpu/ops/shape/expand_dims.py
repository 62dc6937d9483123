"""ExpandDims: a new dim of size 1."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("ExpandDims", ("x", "axis"), note="axis must be a constant")


def lower(b: Builder, n: Site) -> str:
    return b.unsqueeze(n.input(0), ints(n, 1))
