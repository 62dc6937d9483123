"""InvertPermutation: the permutation that undoes x."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("InvertPermutation")


def lower(b: Builder, n: Site) -> str:
    size = n.shape(0)[0]
    count = b.op("Shape", n.input(0)) if size < 0 else b.const([size])
    _, places = b.op("TopK", n.input(0), count, outputs=2, largest=0, axis=0)
    return b.cast(places, n.dtype(0))
