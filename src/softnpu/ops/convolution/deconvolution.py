"""Deconvolution: the transposed convolution of Caffe."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, first
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.convolution._conv import filter_of, format_of, window

SCHEMA = Schema(
    "Deconvolution",
    ("x", "filter", "bias?", "offset_w?"),
    attrs={
        "strides": REQUIRED,
        "pads": REQUIRED,
        "dilations": [1, 1, 1, 1],
        "groups": 1,
        "data_format": "NCHW",
        "offset_x": 0,
    },
    note="the filter is input channels, output channels / groups, height, width",
)


def lower(b: Builder, n: Site) -> str:
    if n.has(3) or n.attr("offset_x", 0):
        raise OpError(
            f"Deconvolution {n.name!r} has an offset, which only quantised ones use; leave offset_w and offset_x out"
        )
    layout = format_of(n, "NCHW")
    weight, kernel = filter_of(b, n, 1, "NCHW")
    bias = n.inputs[2] if n.has(2) else None
    x = first(b, n.input(0), layout)
    return back(
        b,
        str(b.op("ConvTranspose", x, weight, bias, group=int(n.attr("groups", 1)), **window(n, layout, kernel))),
        layout,
    )
