"""Correlation: every image with the filter of its own (the template of a tracker)."""

from softnpu.ops._lower import Builder, OpError, Site
from softnpu.ops._ranks import ranks
from softnpu.ops._schema import Schema

SCHEMA = Schema(
    "Correlation",
    ("filter", "x"),
    attrs={"groups": 1},
    note="groups is 1 or the number of channels; shapes must be fixed",
)


def lower(b: Builder, n: Site) -> str:
    ranks(n, 4, 4)
    batch, channels, height, width = n.shape(0)
    groups = int(n.attr("groups", 1))
    if n.shape(1)[:2] != (batch, channels) or batch < 1 or groups not in (1, channels):
        raise OpError(
            f"Correlation {n.name!r} has filters {list(n.shape(0))} for images {list(n.shape(1))} in {groups} groups; batch and channels "
            "must be equal, and groups 1 or the number of channels"
        )
    rows, columns = n.shape(1)[2:]
    images = b.reshape(n.input(1), [1, batch * channels, rows, columns])
    weights = b.reshape(n.input(0), [batch * groups, channels // groups, height, width])
    found = b.op("Conv", images, weights, group=batch * groups, kernel_shape=[height, width])
    return b.reshape(found, [batch, groups, rows - height + 1, columns - width + 1])
