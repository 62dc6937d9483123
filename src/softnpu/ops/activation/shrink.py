"""Shrink: x moved towards 0 by bias where it is beyond lambd, 0 between."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Shrink", ("input_x",), ("output_y",), {"lambd": 0.5, "bias": 0.0})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Shrink", n.input(0), lambd=float(n.attr("lambd", 0.5)), bias=float(n.attr("bias", 0.0))))
