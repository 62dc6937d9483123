"""PadV2: a value around x."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import shape_of
from softnpu.ops.common.schema import Schema
from softnpu.ops.slicing._pads import pad

SCHEMA = Schema("PadV2", ("x", "paddings", "constant_values"))


def lower(b: Builder, n: Site) -> str:
    return pad(b, n, b.reshape(n.input(2), []) if shape_of(n, 2) != () else n.input(2))
