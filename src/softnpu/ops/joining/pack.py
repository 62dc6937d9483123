"""Pack: tensors of one shape along a new axis."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Pack", ("x*",), attrs={"axis": 0, "N": 1})


def lower(b: Builder, n: Site) -> str:
    axis = int(n.attr("axis", 0))
    if axis < 0:
        axis += n.rank(0) + 1
    return str(b.op("Concat", *(b.unsqueeze(n.input(index), [axis]) for index in range(len(n.inputs))), axis=axis))
