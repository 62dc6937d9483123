"""Concat: tensors one after the other along an axis, which is the first input."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Concat", ("concat_dim", "x*"), attrs={"N": 1}, note="concat_dim must be a constant")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Concat", *n.inputs[1:], axis=ints(n, 0, 1)[0]))
