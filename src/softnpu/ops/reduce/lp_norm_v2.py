"""LpNormV2: the p-norm over axes, never below epsilon."""

import math

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import number
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("LpNormV2", attrs={"p": 2.0, "axes": (), "keepdim": False, "epsilon": 1e-12})


def lower(b: Builder, n: Site) -> str:
    p, axes = float(n.attr("p", 2.0)), [int(axis) for axis in n.attr("axes", ())] or None
    norm = _norm(b, n, p, axes, bool(n.attr("keepdim", False)))
    return str(b.op("Max", norm, number(b, n, float(n.attr("epsilon", 1e-12)))))


def _norm(b: Builder, n: Site, p: float, axes: list[int] | None, keep: bool) -> str:
    if p in (1.0, 2.0):
        return b.reduce(f"L{int(p)}", n.input(0), axes, keep)
    size = str(b.op("Abs", n.input(0)))
    if math.isinf(p):
        return b.reduce("Max" if p > 0 else "Min", size, axes, keep)
    if p == 0.0:
        return b.reduce("Sum", str(b.op("Sign", size)), axes, keep)
    total = b.reduce("Sum", str(b.op("Pow", size, number(b, n, p))), axes, keep)
    return str(b.op("Pow", total, number(b, n, 1.0 / p)))
