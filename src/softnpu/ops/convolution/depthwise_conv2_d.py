"""DepthwiseConv2D: every channel is convolved with filters of its own."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import filter_format
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.convolution._conv import convolve, format_of, window

SCHEMA = Schema(
    "DepthwiseConv2D",
    ("x", "filter", "bias?", "offset_w?"),
    attrs={
        "strides": REQUIRED,
        "dilations": [1, 1, 1, 1],
        "pads": REQUIRED,
        "padding": "",
        "data_format": "NHWC",
        "filter_format": "HWCN",
        "offset_x": 0,
    },
    note="the filter is height, width, channel, multiplier (HWCN) or channel·multiplier, 1, height, width (NCHW)",
)


def lower(b: Builder, n: Site) -> str:
    layout = format_of(n, "NHWC")
    order = filter_format(n, 1, "HWCN")
    shape = n.shape(1)
    if len(shape) != 4 or min(shape) < 1 or order not in ("HWCN", "NCHW"):
        raise OpError(
            f"DepthwiseConv2D {n.name!r} has a filter of shape {list(shape)} in {order!r}; give 4 known dims in HWCN or NCHW"
        )
    weight = n.input(1)
    if order == "NCHW":
        channels = n.shape(0)[layout.index("C")]
        return convolve(b, n, layout, weight, channels if channels > 0 else shape[0], window(n, layout, shape[2:]))
    height, width, channels, multiplier = shape
    weight = b.reshape(b.transpose(weight, [2, 3, 0, 1]), [channels * multiplier, 1, height, width])
    return convolve(b, n, layout, weight, channels, window(n, layout, (height, width)))
