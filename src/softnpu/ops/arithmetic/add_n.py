"""AddN: the sum of any number of tensors of one shape."""

from softnpu.ops.common.bodies import fold_left
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("AddN", ("x*",), attrs={"N": 1})


def lower(b: Builder, n: Site) -> str:
    return fold_left(b, "Add", [n.input(index) for index in range(len(n.inputs))])
