"""MatrixDeterminant: the determinants of square matrices."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("MatrixDeterminant")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Det", n.input(0)))
