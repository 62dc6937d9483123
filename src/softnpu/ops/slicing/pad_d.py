"""PadD: Pad with its amounts as an attribute."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import pairs
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("PadD", attrs={"paddings": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    before, after = pairs(n, n.need("paddings"))
    return b.pad(n.input(0), before, after, dtype=n.dtype(0))
