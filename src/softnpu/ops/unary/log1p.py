"""Log1p: log(1 + x)."""

from softnpu.ops.common.bodies import through
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import DOUBLES
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Log1p")


def lower(b: Builder, n: Site) -> str:
    kind = DOUBLES.get(n.dtype(0), n.dtype(0))

    def body(x: str) -> str:
        # 2 atanh(x / (2 + x)) keeps the digits that 1 + x loses near 0
        half = b.op("Atanh", b.op("Div", x, b.op("Add", x, b.scalar(2, kind))))
        close = b.op("Less", b.op("Abs", x), b.scalar(0.5, kind))
        return str(b.op("Where", close, b.op("Add", half, half), b.op("Log", b.op("Add", x, b.scalar(1, kind)))))

    return through(b, n, 1, DOUBLES, body)
