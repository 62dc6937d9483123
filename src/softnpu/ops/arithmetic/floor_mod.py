"""FloorMod: the rest of a division, with the sign of x2."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import FLOATS
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("FloorMod", ("x1", "x2"))


def lower(b: Builder, n: Site) -> str:
    x, y = n.input(0), n.input(1)
    if n.dtype(0) not in FLOATS:
        return str(b.op("Mod", x, y))
    zero = b.scalar(0, n.dtype(0))
    rest = b.op("Mod", x, y, fmod=1)
    other_sign = b.op("Xor", b.op("Less", rest, zero), b.op("Less", y, zero))
    wrong = b.op("And", other_sign, b.op("Not", b.op("Equal", rest, zero)))
    return str(b.op("Where", wrong, b.op("Add", rest, y), rest))
