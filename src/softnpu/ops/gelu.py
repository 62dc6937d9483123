"""Gelu: x · Φ(x) in the tanh approximation, as CANN computes it."""

from softnpu.ops._activations import gelu_tanh
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("Gelu")


def lower(b: Builder, n: Site) -> str:
    return gelu_tanh(b, n, n.input(0))
