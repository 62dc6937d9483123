"""RandomUniform: numbers between 0 and 1, all equally likely."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._random import draw
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("RandomUniform", ("shape",), attrs={"dtype": REQUIRED, "seed": 0, "seed2": 0})


def lower(b: Builder, n: Site) -> str:
    return draw(b, n, "RandomUniformLike", int(n.need("dtype")))
