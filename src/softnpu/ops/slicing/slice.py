"""Slice: a part of x by offset and size per dim; size -1 means all that is left."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import int64, ints, known
from softnpu.ops.common.schema import Schema
from softnpu.ops.slicing.slice_d import cut

SCHEMA = Schema("Slice", ("x", "offsets?", "size?"), note="NPUSlice of ONNX files has offsets and size as attributes")


def lower(b: Builder, n: Site) -> str:
    if not n.has(1) and "offsets" in n.attrs:
        return cut(b, n, [int(number) for number in n.need("offsets")], [int(number) for number in n.need("size")])
    if known(n, 1) is not None and known(n, 2) is not None:
        return cut(b, n, ints(n, 1), ints(n, 2))
    offsets, sizes = int64(b, n, 1), int64(b, n, 2)
    rest = b.op("Equal", sizes, b.const(-1))
    ends = b.op("Where", rest, b.op("Shape", n.input(0)), b.op("Add", offsets, sizes))
    return str(b.op("Slice", n.input(0), offsets, ends))
