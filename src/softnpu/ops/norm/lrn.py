"""LRN: x / (bias + alpha·sum of squares in a window)^beta, across channels or within one."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, first, format_of
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "LRN", attrs={"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5, "norm_region": "ACROSS_CHANNELS"}
)


def lower(b: Builder, n: Site) -> str:
    radius = int(n.attr("depth_radius", 5))
    bias, alpha, beta = float(n.attr("bias", 1.0)), float(n.attr("alpha", 1.0)), float(n.attr("beta", 0.5))
    region = str(n.attr("norm_region", "ACROSS_CHANNELS"))
    if n.rank() != 4 or region not in ("ACROSS_CHANNELS", "WITHIN_CHANNEL"):
        raise OpError(
            f"LRN {n.name!r} has {n.rank()} dims and the region {region!r}; it takes 4, ACROSS_CHANNELS or WITHIN_CHANNEL"
        )
    size, layout = 2 * radius + 1, format_of(n, "NCHW")
    x = first(b, n.input(0), layout)
    if region == "ACROSS_CHANNELS":
        return back(b, str(b.op("LRN", x, size=size, alpha=alpha * size, beta=beta, bias=bias)), layout)
    dtype = max(n.dtype(), 0)
    mean = b.op("AveragePool", b.op("Mul", x, x), kernel_shape=[size] * 2, pads=[radius] * 4, count_include_pad=1)
    base = b.op("Add", b.op("Mul", mean, b.scalar(alpha * size * size, dtype)), b.scalar(bias, dtype))
    return back(b, str(b.op("Div", x, b.op("Pow", base, b.scalar(beta, dtype)))), layout)
