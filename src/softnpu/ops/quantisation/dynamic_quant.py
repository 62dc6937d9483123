"""DynamicQuant: every row in int8 with a scale of its own, the largest magnitude over 127."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT, INT8
from softnpu.ops.common.schema import Schema
from softnpu.ops.quantisation._quant import as_float, rounded

SCHEMA = Schema(
    "DynamicQuant", ("x", "smooth_scales?", "group_index?"), ("y", "scale"), {"dst_type": 2}, note="no group_index"
)


def lower(b: Builder, n: Site) -> tuple[str, str]:
    if n.has(2) or int(n.attr("dst_type", INT8)) != INT8:
        raise OpError(
            f"DynamicQuant {n.name!r} has group_index or dst_type {n.attr('dst_type')}; only int8 without groups is supported"
        )
    x = as_float(b, n, 0)
    if n.has(1):
        x = str(b.op("Mul", x, as_float(b, n, 1)))
    largest = b.reduce("Max", str(b.op("Abs", x)), [-1 % n.rank(0)])
    scale = b.op("Div", largest, b.scalar(127.0, FLOAT))
    empty = b.op("Equal", scale, b.scalar(0.0, FLOAT))  # a row of zeros stays zeros
    y = rounded(b, n, str(b.op("Div", x, b.op("Where", empty, b.scalar(1.0, FLOAT), scale))), "round", INT8)
    return y, b.squeeze(str(scale), [n.rank(0) - 1])
