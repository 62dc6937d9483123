"""Cast: x in another type; floats lose their fraction."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Cast", attrs={"dst_type": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return b.cast(n.input(0), int(n.need("dst_type")))
