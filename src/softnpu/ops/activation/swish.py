"""Swish: x · sigmoid(scale · x)."""

from softnpu.ops.activation._activations import swish
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Swish", attrs={"scale": 1.0})


def lower(b: Builder, n: Site) -> str:
    return swish(b, n, n.input(0), float(n.attr("scale", 1.0)))
