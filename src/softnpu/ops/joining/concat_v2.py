"""ConcatV2: tensors one after the other along an axis, which is the last input."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("ConcatV2", ("x*", "concat_dim"), attrs={"N": 1}, note="concat_dim must be a constant")


def lower(b: Builder, n: Site) -> str:
    axis = ints(n, len(n.inputs) - 1, 1)[0]
    return str(b.op("Concat", *n.inputs[:-1], axis=axis))
