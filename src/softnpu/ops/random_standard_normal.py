"""RandomStandardNormal: numbers of the normal distribution."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._random import draw
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("RandomStandardNormal", ("shape",), attrs={"dtype": REQUIRED, "seed": 0, "seed2": 0})


def lower(b: Builder, n: Site) -> str:
    return draw(b, n, "RandomNormalLike", int(n.need("dtype")))
