"""Eltwise: the product (mode 0), weighted sum (1) or maximum (2) of tensors of one shape."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Eltwise", ("x*",), attrs={"N": REQUIRED, "mode": 1, "coeff": []})


def lower(b: Builder, n: Site) -> str:
    taken = [n.input(index) for index in range(len(n.inputs))]
    mode, coeff = int(n.attr("mode", 1)), [float(factor) for factor in n.attr("coeff", [])]
    if mode not in (0, 1, 2) or not taken:
        raise OpError(f"Eltwise {n.name!r} has the mode {mode}; it must be 0 (product), 1 (sum) or 2 (max)")
    if coeff and (mode != 1 or len(coeff) != len(taken)):
        raise OpError(
            f"Eltwise {n.name!r} has {len(coeff)} coefficients for {len(taken)} inputs; give one each, and only for a sum"
        )
    if coeff:
        taken = [
            x if factor == 1.0 else b.op("Mul", x, b.scalar(factor, max(n.dtype(), 0)))
            for x, factor in zip(taken, coeff, strict=True)
        ]
    combined, kind = taken[0], ("Mul", "Add", "Max")[mode]
    for x in taken[1:]:
        combined = b.op(kind, combined, x)
    return str(combined)
