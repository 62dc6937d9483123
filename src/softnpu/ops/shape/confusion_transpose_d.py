"""ConfusionTransposeD: a transposition and a reshape in one, in the order that transpose_first says."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("ConfusionTransposeD", attrs={"perm": REQUIRED, "shape": REQUIRED, "transpose_first": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    perm, shape = [int(number) for number in n.need("perm")], [int(number) for number in n.need("shape")]
    if n.need("transpose_first"):
        return b.reshape(b.transpose(n.input(0), perm), shape)
    return b.transpose(b.reshape(n.input(0), shape), perm)
