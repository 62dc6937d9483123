"""AvgPool3D: the mean of each window of a volume."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import format_of
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.pooling._pool import padding_word, pool

SCHEMA = Schema(
    "AvgPool3D",
    attrs={
        "ksize": REQUIRED,
        "strides": REQUIRED,
        "padding": "CALCULATED",
        "pads": [0, 0, 0, 0, 0, 0],
        "ceil_mode": False,
        "count_include_pad": True,
        "divisor_override": 0,
        "data_format": "NDHWC",
    },
    note="divisor_override must be 0",
)


def lower(b: Builder, n: Site) -> str:
    if n.attr("divisor_override", 0):
        raise OpError(f"AvgPool3D {n.name!r} has divisor_override {n.attr('divisor_override')}; only 0 is supported")
    mode = padding_word(n, "padding", "CALCULATED")
    include = bool(n.attr("count_include_pad", True))
    return pool(b, n, format_of(n, "NDHWC"), mode, include_pad=include)
