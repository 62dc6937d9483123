"""PRelu: x where positive, x times a slope (one, or one a channel) where not."""

import math

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("PRelu", ("x", "weight"))


def lower(b: Builder, n: Site) -> str:
    slope, shape, rank = n.input(1), n.shape(1), n.rank()
    if len(shape) <= 1 and rank > 1:
        slope = b.reshape(slope, [-1, *([1] * (rank - 2))] if math.prod(shape) != 1 else [1] * rank)
    return str(b.op("PRelu", n.input(0), slope))
