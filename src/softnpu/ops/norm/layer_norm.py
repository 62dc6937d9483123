"""LayerNorm: x normalised over the dims from begin_norm_axis on, with mean and variance."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow, wide
from softnpu.ops.common.schema import Schema
from softnpu.ops.norm._norms import inverse_spread, moments, scaled

SCHEMA = Schema(
    "LayerNorm",
    ("x", "gamma", "beta"),
    ("y", "mean", "variance"),
    {"begin_norm_axis": 0, "begin_params_axis": 0, "epsilon": 1e-7},
)


def lower(b: Builder, n: Site) -> tuple[str, str, str]:
    first = int(n.attr("begin_norm_axis", 0)) % n.rank(0)
    centred, mean, variance = moments(b, wide(b, n), range(first, n.rank(0)))
    y = b.op("Mul", centred, inverse_spread(b, n, variance, float(n.attr("epsilon", 1e-7))))
    y = scaled(b, y, wide(b, n, 1), wide(b, n, 2))
    return narrow(b, n, y), narrow(b, n, mean), narrow(b, n, variance)
