"""Squeeze: x without dims of size 1, all or those named."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Squeeze", attrs={"axis": []})


def lower(b: Builder, n: Site) -> str:
    listed = n.attr("axis") if n.attr("axis") is not None else n.attr("squeeze_dims")
    axes = [listed] if isinstance(listed, int) else list(listed or ())
    if axes:
        return b.squeeze(n.input(0), axes)
    return str(b.op("Squeeze", n.input(0)))
