"""CastLike: x in the type of the second input."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("CastLike", ("x", "target"))


def lower(b: Builder, n: Site) -> str:
    if n.dtype(1) < 0:
        raise OpError(f"CastLike {n.name!r} does not know the type of its target; give the model typed inputs")
    return b.cast(n.input(0), n.dtype(1))
