"""Conv2D: two-dimensional convolution."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.convolution._conv import convolve, filter_of, format_of, window

SCHEMA = Schema(
    "Conv2D",
    ("x", "filter", "bias?", "offset_w?"),
    attrs={
        "strides": REQUIRED,
        "pads": REQUIRED,
        "dilations": [1, 1, 1, 1],
        "groups": 1,
        "data_format": "NHWC",
        "offset_x": 0,
        "padding": "",
        "filter_format": "",
    },
    note="the filter is HWCN where the data is NHWC and NCHW where it is NCHW, unless filter_format names an order",
)


def lower(b: Builder, n: Site) -> str:
    if n.has(3) or n.attr("offset_x", 0):
        raise OpError(
            f"Conv2D {n.name!r} has an offset, which only quantised convolutions use; leave offset_w and offset_x out"
        )
    if n.rank(0) != 4:
        raise OpError(f"Conv2D {n.name!r} has an input of {n.rank(0)} dims; it must have 4")
    layout = format_of(n, "NHWC")
    weight, kernel = filter_of(b, n, 1, "NCHW" if layout == "NCHW" else "HWCN")
    return convolve(b, n, layout, weight, int(n.attr("groups", 1)), window(n, layout, kernel))
