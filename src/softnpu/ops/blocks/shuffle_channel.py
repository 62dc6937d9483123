"""ShuffleChannel: the channels of `group` groups mixed."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("ShuffleChannel", attrs={"group": 1})


def lower(b: Builder, n: Site) -> str:
    shape, group = n.shape(), int(n.attr("group", 1))
    if len(shape) < 2 or group < 1 or shape[1] < 1 or shape[1] % group or -1 in shape[2:]:
        raise OpError(
            f"ShuffleChannel {n.name!r} cannot split the channels of {list(shape)} into {group} groups; they must divide"
        )
    rest = list(shape[2:])
    x = b.reshape(n.input(0), [0, group, shape[1] // group, *rest])
    return b.reshape(b.transpose(x, [0, 2, 1, *range(3, 3 + len(rest))]), [0, shape[1], *rest])
