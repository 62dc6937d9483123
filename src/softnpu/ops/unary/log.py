"""Log: the logarithm of scale·x + shift; base -1 is e."""

import math

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.unary._power import affine

SCHEMA = Schema("Log", attrs={"base": -1.0, "scale": 1.0, "shift": 0.0})


def lower(b: Builder, n: Site) -> str:
    base = float(n.attr("base", -1.0))
    logarithm = str(b.op("Log", affine(b, n)))
    if base == -1.0:
        return logarithm
    if base <= 0 or base == 1.0:
        raise OpError(f"Log {n.name!r} has the base {base}; it must be positive and not 1, or -1 for e")
    return str(b.op("Div", logarithm, b.scalar(math.log(base), n.dtype(0))))
