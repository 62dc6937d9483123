"""Power: (scale·x + shift)^power."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.unary._power import affine

SCHEMA = Schema("Power", attrs={"power": 1.0, "scale": 1.0, "shift": 0.0})


def lower(b: Builder, n: Site) -> str:
    x, power = affine(b, n), float(n.attr("power", 1.0))
    return x if power == 1.0 else str(b.op("Pow", x, b.scalar(power, max(n.dtype(), 0))))
