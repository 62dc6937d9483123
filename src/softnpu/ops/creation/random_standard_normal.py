"""RandomStandardNormal: numbers of the normal distribution."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.creation._random import draw

SCHEMA = Schema("RandomStandardNormal", ("shape",), attrs={"dtype": REQUIRED, "seed": 0, "seed2": 0})


def lower(b: Builder, n: Site) -> str:
    return draw(b, n, "RandomNormalLike", int(n.need("dtype")))
