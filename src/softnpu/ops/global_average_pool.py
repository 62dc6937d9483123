"""GlobalAveragePool: the mean over all dims behind the channel."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("GlobalAveragePool")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("GlobalAveragePool", n.input(0)))
