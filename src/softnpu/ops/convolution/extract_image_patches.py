"""ExtractImagePatches: the pixels of each window, one after the other as channels."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import format_of, same_pads, spatial
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema(
    "ExtractImagePatches",
    attrs={"ksizes": REQUIRED, "strides": REQUIRED, "rates": REQUIRED, "padding": REQUIRED, "data_format": "NHWC"},
)


def lower(b: Builder, n: Site) -> str:
    if format_of(n, "NHWC") != "NHWC":
        raise OpError(f"ExtractImagePatches {n.name!r} has the data format {n.attr('data_format')!r}; use NHWC")
    kernel, strides, rates = (
        spatial(n, n.need(attribute), "NHWC", attribute) for attribute in ("ksizes", "strides", "rates")
    )
    sizes = list(n.shape(0)[1:3])
    if min(*sizes, *kernel, *strides, *rates) < 1:
        raise OpError(
            f"ExtractImagePatches {n.name!r} has windows of {kernel} on {sizes}; all sizes must be known and positive"
        )
    if kernel[0] * kernel[1] > 1 << 12:
        raise OpError(f"ExtractImagePatches {n.name!r} has windows of {kernel}; at most 4096 pixels are supported")
    x = n.input(0)
    if n.need("padding") == "SAME":
        pads = [same_pads(*four) for four in zip(sizes, kernel, strides, rates, strict=True)]
        x = b.pad(x, [0, pads[0][0], pads[1][0], 0], [0, pads[0][1], pads[1][1], 0], dtype=n.dtype(0))
        sizes = [size + sum(pair) for size, pair in zip(sizes, pads, strict=True)]
    elif n.need("padding") != "VALID":
        raise OpError(f"ExtractImagePatches {n.name!r} has the padding {n.need('padding')!r}; use SAME or VALID")
    reach = [size - (width - 1) * rate for size, width, rate in zip(sizes, kernel, rates, strict=True)]
    if min(reach) < 1:
        raise OpError(f"ExtractImagePatches {n.name!r} has windows of {kernel} that are larger than the image")
    parts = []
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            starts = [row * rates[0], column * rates[1]]
            ends = [start + width for start, width in zip(starts, reach, strict=True)]
            parts.append(b.slice(x, starts, ends, [1, 2], strides))
    return str(b.op("Concat", *parts, axis=3))
