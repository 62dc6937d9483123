"""OneHot: rows of off_value with one on_value each; NPUOneHot of ONNX files has all three as attributes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints, known
from softnpu.ops.common.numbers import FLOAT, INT64
from softnpu.ops.common.schema import Schema
from softnpu.ops.indexing._one_hot import counted, one_hot

SCHEMA = Schema("OneHot", ("x", "depth?", "on_value?", "off_value?"), attrs={"axis": -1})


def lower(b: Builder, n: Site) -> str:
    if not n.has(1) and "depth" in n.attrs:
        on, off = b.scalar(float(n.attr("on_value", 1)), FLOAT), b.scalar(float(n.attr("off_value", 0)), FLOAT)
        return one_hot(b, n, counted(b, int(n.need("depth"))), (on, off))
    values = n.input(2), n.input(3)
    if known(n, 1) is not None:
        return one_hot(b, n, counted(b, ints(n, 1, 1)[0]), values)
    depth = b.cast(b.reshape(n.input(1), []), INT64)
    return one_hot(b, n, str(b.op("Range", b.const(0), depth, b.const(1))), values)
