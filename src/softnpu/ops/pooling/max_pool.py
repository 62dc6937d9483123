"""MaxPool: the largest element of each window."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.pooling._pool import flat

SCHEMA = Schema(
    "MaxPool", attrs={"ksize": REQUIRED, "strides": REQUIRED, "padding": REQUIRED, "pads": [], "data_format": "NHWC"}
)


def lower(b: Builder, n: Site) -> str:
    return flat(b, n, average=False)
