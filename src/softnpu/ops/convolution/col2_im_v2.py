"""Col2ImV2: columns put back to a picture; what overlaps is added."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "Col2ImV2", ("x", "output_size", "kernel_size"), attrs={"dilation": (1, 1), "padding": (0, 0), "stride": (1, 1)}
)


def lower(b: Builder, n: Site) -> str:
    if b.opset < 18:
        raise OpError(f"Col2ImV2 {n.name!r} needs ONNX opset 18 or newer; export the model with a newer opset")
    x = n.input(0)
    if n.rank(0) == 4:  # [N, C, kernel, L]
        batch, channels, kernel, columns = n.shape(0)
        x = b.reshape(x, [batch, channels * kernel, columns])
    sizes = (n.input(i) if n.dtype(i) == INT64 else b.cast(n.input(i), INT64) for i in (1, 2))
    padding = [int(number) for number in n.attr("padding", (0, 0))]
    dilations, strides = ([int(number) for number in n.attr(key, (1, 1))] for key in ("dilation", "stride"))
    return str(b.op("Col2Im", x, *sizes, dilations=dilations, pads=padding + padding, strides=strides))
