"""Reduction: sum, sum of magnitudes, sum of squares or mean over the dims from `axis` on, times coeff."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Reduction", attrs={"operation": "SUM", "axis": 0, "coeff": 1.0})
_KINDS = {"SUM": "Sum", "ASUM": "L1", "SUMSQ": "SumSquare", "MEAN": "Mean"}


def lower(b: Builder, n: Site) -> str:
    operation, coeff = str(n.attr("operation", "SUM")), float(n.attr("coeff", 1.0))
    if operation not in _KINDS:
        raise OpError(f"Reduction {n.name!r} has the operation {operation!r}; use one of {', '.join(_KINDS)}")
    (axis,) = axes_of(n, [int(n.attr("axis", 0))], n.rank())
    reduced = b.reduce(_KINDS[operation], n.input(0), list(range(axis, n.rank())), keepdims=False)
    return reduced if coeff == 1.0 else str(b.op("Mul", reduced, b.scalar(coeff, max(n.dtype(), 0))))
