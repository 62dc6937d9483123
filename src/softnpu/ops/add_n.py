"""AddN: the sum of any number of tensors of one shape."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._math import fold_left
from softnpu.ops._schema import Schema

SCHEMA = Schema("AddN", ("x*",), attrs={"N": 1})


def lower(b: Builder, n: Site) -> str:
    return fold_left(b, "Add", [n.input(index) for index in range(len(n.inputs))])
