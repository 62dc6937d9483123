"""OneHotD: rows of off_value with one on_value each; the depth is an attribute."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.indexing._one_hot import counted, one_hot

SCHEMA = Schema("OneHotD", ("x", "on_value", "off_value"), attrs={"depth": REQUIRED, "axis": -1})


def lower(b: Builder, n: Site) -> str:
    return one_hot(b, n, counted(b, int(n.need("depth"))), (n.input(1), n.input(2)))
