"""MaxPoolV3: the largest element of each window, with pads given or calculated."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.pooling._pool import calculated

SCHEMA = Schema(
    "MaxPoolV3",
    attrs={
        "ksize": REQUIRED,
        "strides": REQUIRED,
        "padding_mode": "CALCULATED",
        "pads": [0, 0, 0, 0],
        "data_format": "NCHW",
        "global_pooling": False,
        "ceil_mode": False,
    },
)


def lower(b: Builder, n: Site) -> str:
    return calculated(b, n, average=False)
