"""The largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints, known
from softnpu.ops.common.numbers import INT32, INT64, SMALL

ATTRS = {"sorted": True, "largest": True, "dim": -1}


def top(b: Builder, n: Site, count: str) -> tuple[str, str]:
    """Values and their places (int32); `count` names a tensor of one int64."""
    dtype = n.dtype(0)
    x = b.cast(n.input(0), SMALL[dtype]) if dtype in SMALL else n.input(0)
    attrs: dict[str, Any] = {"axis": int(n.attr("dim", -1)), "largest": int(bool(n.attr("largest", True)))}
    values, places = b.op("TopK", x, count, outputs=2, sorted=int(bool(n.attr("sorted", True))), **attrs)
    return (b.cast(values, dtype) if dtype in SMALL else values), b.cast(places, INT32)


def top_by_input(b: Builder, n: Site) -> tuple[str, str]:
    """TopK whose second input has the count."""
    if known(n, 1) is not None:
        return top(b, n, b.const(np.array([ints(n, 1, 1)[0]], np.int64)))
    return top(b, n, b.cast(b.reshape(n.input(1), [1]), INT64))
