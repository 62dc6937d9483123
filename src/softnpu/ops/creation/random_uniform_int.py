"""RandomUniformInt: whole numbers from min up to and without max, all equally likely."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import DOUBLE
from softnpu.ops.common.schema import Schema
from softnpu.ops.creation._random import draw

SCHEMA = Schema("RandomUniformInt", ("shape", "min", "max"), attrs={"seed": 0, "seed2": 0})


def lower(b: Builder, n: Site) -> str:
    low, high = (b.cast(b.reshape(n.input(i), []), DOUBLE) for i in (1, 2))
    drawn = draw(b, n, "RandomUniformLike", DOUBLE)
    steps = b.op("Floor", b.op("Mul", drawn, b.op("Sub", high, low)))
    return b.cast(str(b.op("Add", steps, low)), n.dtype(1))
