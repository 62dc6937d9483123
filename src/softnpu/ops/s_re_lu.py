"""SReLU: x between two thresholds, straight lines of other slopes outside."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema(
    "SReLU", ("x", "threshold_left", "slope_left", "threshold_right", "slope_right"), attrs={"channel_shared": True}
)


def lower(b: Builder, n: Site) -> str:
    shape = [-1, *([1] * (n.rank() - 2))]
    low, low_slope, high, high_slope = (b.reshape(n.input(index), shape) for index in range(1, 5))
    x = n.input(0)
    below = b.op("Mul", low_slope, b.op("Sub", b.op("Min", x, low), low))
    above = b.op("Mul", high_slope, b.op("Sub", b.op("Max", x, high), high))
    return str(b.op("Add", b.op("Add", b.op("Max", b.op("Min", x, high), low), below), above))
