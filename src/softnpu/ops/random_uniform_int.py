"""RandomUniformInt: whole numbers from min up to and without max, all equally likely."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._random import draw
from softnpu.ops._schema import Schema

SCHEMA = Schema("RandomUniformInt", ("shape", "min", "max"), attrs={"seed": 0, "seed2": 0})
_DOUBLE = 11


def lower(b: Builder, n: Site) -> str:
    low, high = (b.cast(b.reshape(n.input(i), []), _DOUBLE) for i in (1, 2))
    drawn = draw(b, n, "RandomUniformLike", _DOUBLE)
    steps = b.op("Floor", b.op("Mul", drawn, b.op("Sub", high, low)))
    return b.cast(str(b.op("Add", steps, low)), n.dtype(1))
