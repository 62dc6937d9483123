"""Conv2DBackpropInput: the gradient of a convolution by its input, that is TensorFlow's transposed convolution."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, first, mode_of, padding, same_pads, spatial, spatial_dims
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.convolution._conv import filter_of, format_of

SCHEMA = Schema(
    "Conv2DBackpropInput",
    ("input_size", "filter", "out_backprop"),
    attrs={
        "strides": REQUIRED,
        "pads": REQUIRED,
        "padding": "",
        "dilations": [1, 1, 1, 1],
        "groups": 1,
        "data_format": "NHWC",
        "filter_format": "",
    },
    note="input_size must be a constant; its height and width count, batch and channels follow from the other inputs",
)


def lower(b: Builder, n: Site) -> str:
    layout = format_of(n, "NHWC")
    weight, kernel = filter_of(b, n, 1, "NCHW" if layout[1] == "C" else "HWCN")
    strides = spatial(n, n.need("strides"), layout, "strides")
    dilations = spatial(n, n.attr("dilations") or 1, layout, "dilations")
    wanted = ints(n, 0)
    if len(wanted) == 4:
        wanted = [dim for dim, letter in zip(wanted, layout, strict=True) if letter in "HW"]
    source = spatial_dims(n, 2, layout)
    if len(wanted) != 2 or min(*wanted, *source) < 1:
        raise OpError(f"{n.type} {n.name!r} goes from {source} to {wanted}; both must be a known height and width")
    if mode_of(n).upper() == "SAME":
        pairs = [same_pads(*four) for four in zip(wanted, kernel, strides, dilations, strict=True)]
        pads = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    else:
        pads = padding(n, layout, kernel, strides, dilations, mode_of(n), 2)["pads"]
    more = []
    for axis in range(2):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        more.append(wanted[axis] - strides[axis] * (source[axis] - 1) - reach + pads[axis] + pads[axis + 2])
        if not 0 <= more[axis] < max(strides[axis], dilations[axis]):
            raise OpError(
                f"{n.type} {n.name!r} cannot make {wanted} of {source} with strides {strides} and pads {pads}; check input_size"
            )
    x = first(b, n.input(2), layout)
    y = b.op(
        "ConvTranspose",
        x,
        weight,
        strides=strides,
        dilations=dilations,
        kernel_shape=kernel,
        pads=pads,
        output_padding=more,
        group=int(n.attr("groups", 1)),
    )
    return back(b, str(y), layout)
