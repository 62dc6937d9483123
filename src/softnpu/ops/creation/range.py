"""Range: numbers from start to before limit in steps of delta."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import shape_of
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Range", ("start", "limit", "delta"))


def lower(b: Builder, n: Site) -> str:
    names = [n.input(index) if shape_of(n, index) == () else b.reshape(n.input(index), []) for index in range(3)]
    return str(b.op("Range", *names))
