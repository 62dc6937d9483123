"""The place of the largest or smallest element."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import BOOL, INT32, INT64, UINT32


def extreme_index(b: Builder, n: Site, kind: str, axis: int) -> str:
    """ArgMax or ArgMin along an axis; the first of equal elements counts."""
    if n.input_shapes[0] is not None and not -n.rank(0) <= axis < n.rank(0):
        raise OpError(f"{n.type} {n.name!r} has the dimension {axis} on a tensor of {n.rank(0)} dims")
    wanted = int(n.attr("dtype", INT64))
    if wanted not in (INT32, INT64):
        raise OpError(f"{n.type} {n.name!r} has the dtype {wanted}; use 3 (int32) or 9 (int64)")
    via = {6: INT32, 7: INT32, UINT32: INT64, BOOL: INT32}
    x = n.input(0)
    if n.dtype(0) in via:
        x = b.cast(x, via[n.dtype(0)])
    index = str(b.op(kind, x, axis=axis, keepdims=0))
    return index if wanted == INT64 else b.cast(index, wanted)
