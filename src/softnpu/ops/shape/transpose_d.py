"""TransposeD: the dims of x in another order, which is an attribute."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("TransposeD", attrs={"perm": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return b.transpose(n.input(0), [int(axis) for axis in n.need("perm")])
