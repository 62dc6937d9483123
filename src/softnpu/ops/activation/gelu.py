"""Gelu: x · Φ(x) in the tanh approximation, as CANN computes it."""

from softnpu.ops.activation._activations import gelu_tanh
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Gelu")


def lower(b: Builder, n: Site) -> str:
    return gelu_tanh(b, n, n.input(0))
