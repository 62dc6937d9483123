"""MaxPool3D: the largest element of each window of a volume."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.formats import format_of
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.pooling._pool import padding_word, pool

SCHEMA = Schema(
    "MaxPool3D",
    attrs={
        "ksize": REQUIRED,
        "strides": REQUIRED,
        "padding": "CALCULATED",
        "pads": [0, 0, 0, 0, 0, 0],
        "dilation": [1, 1, 1, 1, 1],
        "ceil_mode": 0,
        "data_format": "NDHWC",
    },
)


def lower(b: Builder, n: Site) -> str:
    return pool(b, n, format_of(n, "NDHWC"), padding_word(n, "padding", "CALCULATED"))
