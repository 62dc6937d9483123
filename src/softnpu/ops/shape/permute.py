"""Permute: the dims in another order; dims that `order` leaves out follow as they are."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Permute", attrs={"order": [0]})


def lower(b: Builder, n: Site) -> str:
    order = [int(axis) for axis in n.attr("order", [0])]
    if len(axes_of(n, order, n.rank())) != len(order):
        raise OpError(f"Permute {n.name!r} has the order {order}; every dim may stand there once")
    order = [axis % n.rank() for axis in order]
    return b.transpose(n.input(0), order + [axis for axis in range(n.rank()) if axis not in order])
