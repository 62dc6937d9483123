"""Choosing between two tensors element by element."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT32, INT64

_VIA = {2: INT32, 6: INT32, 7: INT32, 8: INT64}  # types that engines cannot choose in


def choose(b: Builder, n: Site, condition: str) -> str:
    """The second input where the condition holds, the third elsewhere."""
    dtype = n.dtype(1)
    if dtype not in _VIA:
        return str(b.op("Where", condition, n.input(1), n.input(2)))
    parts = (b.cast(n.input(index), _VIA[dtype]) for index in (1, 2))
    return b.cast(str(b.op("Where", condition, *parts)), dtype)
