"""UnsqueezeV3: dims of size 1 inserted; where, says an input."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("UnsqueezeV3", ("x", "axes"))


def lower(b: Builder, n: Site) -> str:
    if b.opset >= 13 and n.constants[1] is None:
        return str(b.op("Unsqueeze", n.input(0), n.input(1) if n.dtype(1) == INT64 else b.cast(n.input(1), INT64)))
    return b.unsqueeze(n.input(0), [int(axis) for axis in n.constant(1).reshape(-1)])
