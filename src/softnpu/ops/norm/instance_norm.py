"""InstanceNorm: every channel of every picture normalised by itself."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow, wide
from softnpu.ops.common.schema import Schema
from softnpu.ops.norm._norms import channel_axis, inverse_spread, moments, per_channel, scaled

SCHEMA = Schema(
    "InstanceNorm", ("x", "gamma", "beta"), ("y", "mean", "variance"), {"data_format": "NDHWC", "epsilon": 1e-6}
)


def lower(b: Builder, n: Site) -> tuple[str, str, str]:
    rank, channel = n.rank(0), channel_axis(n, "NDHWC")
    centred, mean, variance = moments(b, wide(b, n), [axis for axis in range(1, rank) if axis != channel])
    y = b.op("Mul", centred, inverse_spread(b, n, variance, float(n.attr("epsilon", 1e-6))))
    y = scaled(b, y, per_channel(b, n, 1, rank, channel), per_channel(b, n, 2, rank, channel))
    return narrow(b, n, y), mean, variance
