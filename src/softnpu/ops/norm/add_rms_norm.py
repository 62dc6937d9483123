"""AddRmsNorm: RmsNorm of x1 + x2; the sum is the third output."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow, wide
from softnpu.ops.common.schema import Schema
from softnpu.ops.norm.rms_norm import normalise

SCHEMA = Schema("AddRmsNorm", ("x1", "x2", "gamma"), ("y", "rstd", "x"), {"epsilon": 1e-6})


def lower(b: Builder, n: Site) -> tuple[str, str, str]:
    total = str(b.op("Add", wide(b, n), wide(b, n, 1)))
    y, rstd = normalise(b, n, total, 2)
    return y, rstd, narrow(b, n, total)
