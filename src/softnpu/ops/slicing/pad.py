"""Pad: zeros around x."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import known, pairs
from softnpu.ops.common.schema import Schema
from softnpu.ops.slicing._pads import pad

SCHEMA = Schema("Pad", ("x", "paddings"))


def lower(b: Builder, n: Site) -> str:
    if known(n, 1) is not None:
        before, after = pairs(n, known(n, 1))
        return b.pad(n.input(0), before, after, dtype=n.dtype(0))
    return pad(b, n, None)
