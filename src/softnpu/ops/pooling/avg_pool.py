"""AvgPool: the mean of each window; padding does not count."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.pooling._pool import flat

SCHEMA = Schema(
    "AvgPool", attrs={"ksize": REQUIRED, "strides": REQUIRED, "padding": REQUIRED, "pads": [], "data_format": "NHWC"}
)


def lower(b: Builder, n: Site) -> str:
    return flat(b, n, average=True)
