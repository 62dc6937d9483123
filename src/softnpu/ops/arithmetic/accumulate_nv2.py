"""AccumulateNV2: the sum of any number of tensors."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("AccumulateNV2", ("x*",), attrs={"N": 0})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Sum", *(n.input(i) for i in range(len(n.inputs)))))
