"""Exp: base^(scale·x + shift); base -1 is e."""

import math

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.unary._power import affine

SCHEMA = Schema("Exp", attrs={"base": -1.0, "scale": 1.0, "shift": 0.0})


def lower(b: Builder, n: Site) -> str:
    x = affine(b, n)
    base = float(n.attr("base", -1.0))
    if base != -1.0:
        if base <= 0:
            raise OpError(f"Exp {n.name!r} has the base {base}; it must be positive, or -1 for e")
        x = str(b.op("Mul", x, b.scalar(math.log(base), n.dtype(0))))
    return str(b.op("Exp", x))
