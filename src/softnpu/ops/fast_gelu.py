"""FastGelu: x · sigmoid(1.702 x)."""

from softnpu.ops._activations import gelu_fast
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("FastGelu")


def lower(b: Builder, n: Site) -> str:
    return gelu_fast(b, n, n.input(0))
