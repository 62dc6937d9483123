"""One-hot rows."""

from __future__ import annotations

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT64

_MANY = 1 << 16


def one_hot(b: Builder, n: Site, numbers: str, values: tuple[str, str]) -> str:
    """`on` where the index equals the place on the new axis, `off` elsewhere: also for an index outside of the depth."""
    rank = n.rank(0)
    axis = int(n.attr("axis", -1)) % (rank + 1)
    indices = b.unsqueeze(b.cast(n.input(0), INT64), [axis])
    here = b.reshape(numbers, [-1 if dim == axis else 1 for dim in range(rank + 1)])
    return str(b.op("Where", b.op("Equal", indices, here), *values))


def counted(b: Builder, depth: int) -> str:
    """The numbers from 0 to before the depth; many of them are made at run time."""
    if depth <= _MANY:
        return b.const(np.arange(depth, dtype=np.int64))
    return str(b.op("Range", b.const(0), b.const(depth), b.const(1)))
