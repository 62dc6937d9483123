"""Padding by a list of (before, after) per dim."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.ops._lower import Builder, OpError, Site
from softnpu.ops._math import int64, known


def pairs(n: Site, paddings: Any) -> tuple[list[int], list[int]]:
    """Amounts before and after, from a table with two columns."""
    table = np.asarray(paddings)
    if table.dtype.kind not in "iu" or table.ndim != 2 or table.shape[1] != 2 or (table < 0).any():
        raise OpError(
            f"{n.type} {n.name!r} has the paddings {table.tolist()}; give a pair of non-negative numbers per dim"
        )
    return [int(one) for one in table[:, 0]], [int(one) for one in table[:, 1]]


def pad(b: Builder, n: Site, fill: str | None) -> str:
    """Pad with a constant; the second input has the amounts."""
    if known(n, 1) is not None:
        before, after = pairs(n, known(n, 1))
        amounts = b.const(np.array([*before, *after], np.int64))
    else:
        amounts = b.reshape(b.transpose(int64(b, n, 1), [1, 0]), [-1])
    return str(b.op("Pad", n.input(0), amounts, fill))
