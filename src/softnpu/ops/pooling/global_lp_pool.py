"""GlobalLpPool: the p-norm over all dims behind the channel."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("GlobalLpPool", attrs={"p": 2.0})


def lower(b: Builder, n: Site) -> str:
    p = float(n.attr("p", 2.0))
    if p != int(p) or p < 1:
        raise OpError(f"GlobalLpPool {n.name!r} has p {p}; use a whole number from 1 on")
    return str(b.op("GlobalLpPool", n.input(0), p=int(p)))
