"""RandomUniform: numbers between 0 and 1, all equally likely."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.creation._random import draw

SCHEMA = Schema("RandomUniform", ("shape",), attrs={"dtype": REQUIRED, "seed": 0, "seed2": 0})


def lower(b: Builder, n: Site) -> str:
    return draw(b, n, "RandomUniformLike", int(n.need("dtype")))
