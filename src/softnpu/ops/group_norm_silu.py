"""GroupNormSilu: a group normalisation, followed by x · sigmoid(x)."""

from softnpu.ops._group_norm import normalise
from softnpu.ops._lower import Builder, Site
from softnpu.ops._norms import narrow
from softnpu.ops._schema import REQUIRED, Schema

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
