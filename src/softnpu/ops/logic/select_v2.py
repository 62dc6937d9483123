"""SelectV2: x1 where the condition holds, x2 elsewhere; all three broadcast."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.logic._select import choose

SCHEMA = Schema("SelectV2", ("condition", "then", "else"))


def lower(b: Builder, n: Site) -> str:
    return choose(b, n, n.input(0))
