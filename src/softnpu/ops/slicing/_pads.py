"""Padding by a list of (before, after) per dim."""

from __future__ import annotations

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import int64, known, pairs


def pad(b: Builder, n: Site, fill: str | None) -> str:
    """Pad with a constant; the second input has the amounts."""
    if known(n, 1) is not None:
        before, after = pairs(n, known(n, 1))
        amounts = b.const(np.array([*before, *after], np.int64))
    else:
        amounts = b.reshape(b.transpose(int64(b, n, 1), [1, 0]), [-1])
    return str(b.op("Pad", n.input(0), amounts, fill))
