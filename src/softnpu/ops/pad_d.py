"""PadD: Pad with its amounts as an attribute."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._pads import pairs
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema("PadD", attrs={"paddings": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    before, after = pairs(n, n.need("paddings"))
    return b.pad(n.input(0), before, after, dtype=n.dtype(0))
