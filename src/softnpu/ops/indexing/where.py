"""Where: the coordinates of the elements that are not zero, a row each."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import BOOL, FLOAT, INT32, INT64, UINT8
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Where")


def lower(b: Builder, n: Site) -> str:
    x = n.input(0)
    if n.dtype(0) not in (FLOAT, INT32, INT64, UINT8, BOOL):
        x = b.cast(x, BOOL)
    return b.transpose(str(b.op("NonZero", x)), [1, 0])
