"""Conv3D: convolution of a volume."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.convolution._conv import convolve, filter_of, format_of, window

SCHEMA = Schema(
    "Conv3D",
    ("x", "filter", "bias?", "offset_w?"),
    attrs={
        "strides": REQUIRED,
        "pads": REQUIRED,
        "padding": "",
        "dilations": [1, 1, 1, 1, 1],
        "groups": 1,
        "data_format": "NDHWC",
        "filter_format": "",
        "offset_x": 0,
    },
    note="the filter is DHWCN with NDHWC data and NCDHW with NCDHW data, unless filter_format says otherwise",
)


def lower(b: Builder, n: Site) -> str:
    layout = format_of(n, "NDHWC")
    weight, kernel = filter_of(b, n, 1, "NCDHW" if layout[1] == "C" else "DHWCN")
    return convolve(b, n, layout, weight, int(n.attr("groups", 1)), window(n, layout, kernel))
