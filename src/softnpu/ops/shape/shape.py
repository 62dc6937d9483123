"""Shape: the dims of x."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT32, INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Shape", attrs={"dtype": 3})


def lower(b: Builder, n: Site) -> str:
    dims = str(b.op("Shape", n.input(0)))
    wanted = int(n.attr("dtype", INT32))
    return dims if wanted == INT64 else b.cast(dims, wanted)
