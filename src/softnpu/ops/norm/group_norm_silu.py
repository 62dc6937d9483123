"""GroupNormSilu: a group normalisation, followed by x · sigmoid(x)."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.norm._group_norm import normalise

SCHEMA = Schema(
    "GroupNormSilu",
    ("x", "gamma?", "beta?"),
    ("y", "mean", "rstd"),
    {"num_groups": REQUIRED, "eps": 1e-5, "activate_silu": True},
)


def lower(b: Builder, n: Site) -> tuple[str, str, str]:
    y, mean, _, rstd = normalise(b, n, float(n.attr("eps", 1e-5)))
    if n.attr("activate_silu", True):
        y = str(b.op("Mul", y, b.op("Sigmoid", y)))
    return narrow(b, n, y), narrow(b, n, mean), narrow(b, n, rstd)
