"""ReverseSequence: the first so many elements of each row backwards."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.inputs import int64
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("ReverseSequence", ("x", "seq_lengths"), attrs={"seq_dim": REQUIRED, "batch_dim": 0})


def lower(b: Builder, n: Site) -> str:
    rank = n.rank(0)
    time, batch = (axes_of(n, [int(n.attr(attribute, 0))], rank)[0] for attribute in ("seq_dim", "batch_dim"))
    if time == batch:
        raise OpError(f"ReverseSequence {n.name!r} has seq_dim and batch_dim {time}; they must differ")
    perm = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    undo = [perm.index(axis) for axis in range(rank)]
    moved = n.input(0) if perm == undo == list(range(rank)) else b.transpose(n.input(0), perm)
    turned = str(b.op("ReverseSequence", moved, int64(b, n, 1), batch_axis=0, time_axis=1))
    return turned if moved == n.input(0) else b.transpose(turned, undo)
