"""RangeD: numbers from start to before limit in steps of delta, all attributes."""

import numpy as np

from softnpu.ops._lower import Builder, OpError, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("RangeD", attrs={"start": REQUIRED, "limit": REQUIRED, "delta": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    start, limit, delta = (float(n.need(word)) for word in ("start", "limit", "delta"))
    if delta == 0:
        raise OpError(f"RangeD {n.name!r} has the delta 0; it must not be 0")
    return b.const(np.arange(start, limit, delta), n.dtype(0))
