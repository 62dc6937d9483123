"""AvgPool: the mean of each window; padding does not count."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._pool import flat
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema(
    "AvgPool", attrs={"ksize": REQUIRED, "strides": REQUIRED, "padding": REQUIRED, "pads": [], "data_format": "NHWC"}
)


def lower(b: Builder, n: Site) -> str:
    return flat(b, n, average=True)
