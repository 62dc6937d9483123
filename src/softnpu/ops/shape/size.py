"""Size: the number of elements of x."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT32, INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Size", attrs={"dtype": 3})


def lower(b: Builder, n: Site) -> str:
    count = str(b.op("Size", n.input(0)))
    wanted = int(n.attr("dtype", INT32))
    return count if wanted == INT64 else b.cast(count, wanted)
