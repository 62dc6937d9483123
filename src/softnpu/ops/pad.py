"""Pad: zeros around x."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import known
from softnpu.ops._pads import pad, pairs
from softnpu.ops._schema import Schema

SCHEMA = Schema("Pad", ("x", "paddings"))


def lower(b: Builder, n: Site) -> str:
    if known(n, 1) is not None:
        before, after = pairs(n, known(n, 1))
        return b.pad(n.input(0), before, after, dtype=n.dtype(0))
    return pad(b, n, None)
