"""Expm1: e^x - 1."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Expm1")


def lower(b: Builder, n: Site) -> str:
    # 2 tanh(x/2) / (1 - tanh(x/2)) keeps the digits that e^x - 1 loses near 0
    one = b.scalar(1, n.dtype(0))
    small = b.op("Tanh", b.op("Mul", n.input(0), b.scalar(0.5, n.dtype(0))))
    near = b.op("Div", b.op("Add", small, small), b.op("Sub", one, small))
    close = b.op("Less", b.op("Abs", n.input(0)), one)
    return str(b.op("Where", close, near, b.op("Sub", b.op("Exp", n.input(0)), one)))
