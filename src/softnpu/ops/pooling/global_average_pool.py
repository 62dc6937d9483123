"""GlobalAveragePool: the mean over all dims behind the channel."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("GlobalAveragePool")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("GlobalAveragePool", n.input(0)))
