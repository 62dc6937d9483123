"""MirrorPad: x is continued as in a mirror that stands on its last element (REFLECT) or behind it (SYMMETRIC)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.inputs import pairs
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("MirrorPad", ("x", "paddings"), attrs={"mode": REQUIRED}, note="paddings must be a constant")


def lower(b: Builder, n: Site) -> str:
    mode = str(n.need("mode")).upper()
    before, after = pairs(n, n.constant(1))
    if mode == "REFLECT":
        return b.pad(n.input(0), before, after, mode="reflect", dtype=n.dtype(0))
    if mode != "SYMMETRIC":
        raise OpError(f"MirrorPad {n.name!r} has the mode {mode!r}; use REFLECT or SYMMETRIC")
    x = n.input(0)
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        x = _continue(b, n, x, axis, low, high)
    return x


def _continue(b: Builder, n: Site, x: str, axis: int, low: int, high: int) -> str:
    """One axis of the symmetric mode, which ONNX lacks: the ends of x, backwards, before and after it."""
    size = n.shape(0)[axis]
    if 0 <= size < max(low, high):
        raise OpError(
            f"MirrorPad {n.name!r} pads axis {axis} of {size} elements by {low} and {high}; no more than {size} are possible"
        )
    parts = [x]
    if low:
        parts.insert(0, b.slice(x, [low - 1], [-(1 << 62)], [axis], [-1]))
    if high:
        parts.append(b.slice(x, [-1], [-high - 1], [axis], [-1]))
    return str(b.op("Concat", *parts, axis=axis)) if len(parts) > 1 else x
