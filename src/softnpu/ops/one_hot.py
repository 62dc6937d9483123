"""OneHot: rows of off_value with one on_value each."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import INT64, ints, known
from softnpu.ops._one_hot import counted, one_hot
from softnpu.ops._schema import Schema

SCHEMA = Schema("OneHot", ("x", "depth", "on_value", "off_value"), attrs={"axis": -1})


def lower(b: Builder, n: Site) -> str:
    if known(n, 1) is not None:
        return one_hot(b, n, counted(b, ints(n, 1, 1)[0]), (2, 3))
    depth = b.cast(b.reshape(n.input(1), []), INT64)
    return one_hot(b, n, str(b.op("Range", b.const(0), depth, b.const(1))), (2, 3))
