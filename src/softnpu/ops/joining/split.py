"""Split: equal parts of x along an axis, which is the first input."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.joining.split_d import equal_parts

SCHEMA = Schema(
    "Split", ("split_dim", "x"), ("y*",), attrs={"num_split": REQUIRED}, note="split_dim must be a constant"
)


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    return equal_parts(b, n, 1, ints(n, 0, 1)[0])
