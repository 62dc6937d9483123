"""Choosing between two tensors element by element."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT8, INT16, INT32, INT64, UINT16, UINT32

_VIA: dict[int, int] = {INT8: INT32, INT16: INT32, UINT16: INT32, UINT32: INT64}  # types that engines cannot choose in


def choose(b: Builder, n: Site, condition: str) -> str:
    """The second input where the condition holds, the third elsewhere."""
    dtype = n.dtype(1)
    if dtype not in _VIA:
        return str(b.op("Where", condition, n.input(1), n.input(2)))
    parts = (b.cast(n.input(index), _VIA[dtype]) for index in (1, 2))
    return b.cast(str(b.op("Where", condition, *parts)), dtype)
