"""Reshape: the same elements in another shape; one dim may be -1, 0 copies a dim."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.inputs import int64, ints, known
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "Reshape",
    ("x", "shape"),
    attrs={"axis": 0, "num_axes": -1, "allowzero": 0},
    note="with axis or num_axes only a constant shape",
)


def lower(b: Builder, n: Site) -> str:
    axis, count = int(n.attr("axis", 0)), int(n.attr("num_axes", -1))
    zero = int(n.attr("allowzero", 0)) or None
    if not axis and count == -1:
        if known(n, 1) is not None and not zero:
            return b.reshape(n.input(0), ints(n, 1))
        return str(b.op("Reshape", n.input(0), int64(b, n, 1), allowzero=zero))
    dims = list(n.shape(0))
    axis += len(dims) + 1 if axis < 0 else 0
    end = len(dims) if count == -1 else axis + count
    if not 0 <= axis <= end <= len(dims):
        raise OpError(f"Reshape {n.name!r} has axis {axis} and num_axes {count} on a tensor of {len(dims)} dims")
    wanted = ints(n, 1)
    return b.reshape(n.input(0), [*[0] * axis, *wanted, *dims[end:]])  # 0 copies the dim at its place
