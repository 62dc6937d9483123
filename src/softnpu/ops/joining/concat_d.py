"""ConcatD: tensors one after the other along an axis."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("ConcatD", ("x*",), attrs={"concat_dim": REQUIRED, "N": 1})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Concat", *n.inputs, axis=int(n.need("concat_dim"))))
