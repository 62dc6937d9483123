"""Conv3DTranspose: the transposed convolution of volumes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.convolution._conv_transpose import lower_transposed

SCHEMA = Schema(
    "Conv3DTranspose",
    ("input_size", "x", "filter", "bias?", "offset_w?"),
    attrs={
        "strides": REQUIRED, "pads": REQUIRED, "dilations": (1, 1, 1, 1, 1), "groups": 1, "data_format": "NDHWC",
        "output_padding": (0, 0, 0, 0, 0), "offset_x": 0,
    },
    note="no offset_w",
)  # fmt: skip


def lower(b: Builder, n: Site) -> str:
    return lower_transposed(b, n, "DHW", "NDHWC")
