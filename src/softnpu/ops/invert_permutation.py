"""InvertPermutation: the permutation that undoes x."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("InvertPermutation")


def lower(b: Builder, n: Site) -> str:
    count = b.op("Shape", n.input(0))
    _, places = b.op("TopK", n.input(0), count, outputs=2, largest=0, axis=0)
    return b.cast(places, n.dtype(0))
