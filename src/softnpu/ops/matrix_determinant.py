"""MatrixDeterminant: the determinants of square matrices."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("MatrixDeterminant")


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Det", n.input(0)))
