"""GroupNorm: groups of channels normalised together; mean and variance have a value per picture and group."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.norm._group_norm import normalise

SCHEMA = Schema(
    "GroupNorm", ("x", "gamma", "beta"), ("y", "mean", "variance"),
    {"num_groups": REQUIRED, "data_format": "NCHW", "eps": 1e-4, "is_training": True},
    note="NCHW only",
)  # fmt: skip


def lower(b: Builder, n: Site) -> tuple[str, str, str]:
    y, mean, variance, _ = normalise(b, n, float(n.attr("eps", 1e-4)))
    return narrow(b, n, y), narrow(b, n, mean), narrow(b, n, variance)
