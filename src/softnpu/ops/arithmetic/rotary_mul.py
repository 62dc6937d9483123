"""RotaryMul: x · r1 + rotated(x) · r2, the rotary position embedding.

Mode 0 rotates the two halves of the last dim, mode 1 the neighbours (even, odd).
"""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("RotaryMul", ("x", "r1", "r2"), attrs={"mode": 0})


def lower(b: Builder, n: Site) -> str:
    mode, size = int(n.attr("mode", 0)), n.shape(0)[-1]
    if mode not in (0, 1) or size < 0 or size % 2:
        raise OpError(
            f"RotaryMul {n.name!r} has mode {mode} and a last dim of {size}; use mode 0 or 1 and an even, known dim"
        )
    x = n.input(0)
    rotated = _halves(b, n, x, size) if mode == 0 else _neighbours(b, n, x)
    return str(b.op("Add", b.op("Mul", x, n.input(1)), b.op("Mul", rotated, n.input(2))))


def _halves(b: Builder, n: Site, x: str, size: int) -> str:
    left, right = b.split(x, [size // 2, size // 2], n.rank(0) - 1)
    return str(b.op("Concat", b.op("Neg", right), left, axis=-1))


def _neighbours(b: Builder, n: Site, x: str) -> str:
    axis = n.rank(0) - 1
    even, odd = (b.unsqueeze(b.slice(x, [start], [2**31 - 1], [axis], [2]), [axis + 1]) for start in (0, 1))
    pairs = b.op("Concat", b.op("Neg", odd), even, axis=axis + 1)
    return str(b.op("Reshape", pairs, b.op("Shape", x)))
