"""FastGelu: x · sigmoid(1.702 x)."""

from softnpu.ops.activation._activations import gelu_fast
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("FastGelu")


def lower(b: Builder, n: Site) -> str:
    return gelu_fast(b, n, n.input(0))
