"""BNInference: normalisation with sums of means and variances that `momentum` counts (Caffe's BatchNorm)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "BNInference",
    ("x", "mean", "variance", "momentum", "scale?", "offset?"),
    attrs={"epsilon": 1e-5, "use_global_stats": True, "mode": 1},
    note="mode 1 only",
)


def lower(b: Builder, n: Site) -> str:
    if not n.attr("use_global_stats", True) or n.attr("mode", 1) != 1:
        raise OpError(f"BNInference {n.name!r} asks for the statistics of the batch; set use_global_stats to true")
    dtype = max(n.dtype(), 0)
    count = b.reshape(n.input(3), [-1])
    zero = b.op("Equal", count, b.scalar(0, dtype))  # an untrained net counts 0; Caffe takes its statistics as 0
    factor = b.op("Where", zero, b.const([0.0], dtype), b.op("Reciprocal", count))
    mean, variance = (b.op("Mul", b.reshape(n.input(i), [-1]), factor) for i in (1, 2))
    deviation = b.op("Sqrt", b.op("Add", variance, b.scalar(float(n.attr("epsilon", 1e-5)), dtype)))
    scale = b.op("Div", b.reshape(n.input(4), [-1]) if n.has(4) else b.const([1.0], dtype), deviation)
    offset = b.op("Neg", b.op("Mul", mean, scale))
    if n.has(5):
        offset = b.op("Add", offset, b.reshape(n.input(5), [-1]))
    shape = [-1, *([1] * (n.rank() - 2))]
    return str(b.op("Add", b.op("Mul", n.input(0), b.reshape(scale, shape)), b.reshape(offset, shape)))
