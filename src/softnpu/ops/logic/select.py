"""Select: x1 where the condition holds, x2 elsewhere; a vector chooses whole rows."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.logic._select import choose

SCHEMA = Schema("Select", ("condition", "x1", "x2"))


def lower(b: Builder, n: Site) -> str:
    condition = n.input(0)
    if n.rank(0) == 1 and n.rank(1) > 1:
        condition = b.unsqueeze(condition, range(1, n.rank(1)))
    return choose(b, n, condition)
