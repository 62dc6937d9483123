"""Softmax over several axes."""

from __future__ import annotations

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of


def softmax(b: Builder, n: Site, log: bool = False) -> str:
    """Softmax of the first input over `axes`; more than one axis are taken together."""
    x = n.input(0)
    listed = n.attr("axes", [-1])
    listed = [listed] if isinstance(listed, int) else list(listed)
    if not listed:
        raise OpError(f"{n.type} {n.name!r} has no axes; name at least one")
    if len(listed) == 1:
        if n.input_shapes[0] is None and listed[0] == -1:
            return str(b.op("LogSoftmax" if log else "Softmax", x, axis=-1))
        return b.softmax(x, listed[0], n.rank(0), log)
    axes = axes_of(n, listed, n.rank(0))
    shifted = b.op("Sub", x, b.reduce("Max", x, axes))
    if log:
        return str(b.op("Sub", shifted, b.reduce("LogSumExp", str(shifted), axes)))
    powers = str(b.op("Exp", shifted))
    return str(b.op("Div", powers, b.reduce("Sum", powers, axes)))
