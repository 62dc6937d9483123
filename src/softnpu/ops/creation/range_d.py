"""RangeD: numbers from start to before limit in steps of delta, all attributes."""

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("RangeD", attrs={"start": REQUIRED, "limit": REQUIRED, "delta": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    start, limit, delta = (float(n.need(attribute)) for attribute in ("start", "limit", "delta"))
    if delta == 0:
        raise OpError(f"RangeD {n.name!r} has the delta 0; it must not be 0")
    if not (limit - start) / delta <= 1 << 26:
        raise OpError(
            f"RangeD {n.name!r} goes from {start} to {limit} in steps of {delta}; at most 2^26 numbers are possible"
        )
    return b.const(np.arange(start, limit, delta), n.dtype(0))
