"""Pooling: max (mode 0) or average (1), as Caffe does it."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, first, format_of
from softnpu.ops.common.schema import Schema
from softnpu.ops.pooling._caffe_pool import plan, pool

SCHEMA = Schema(
    "Pooling",
    attrs={
        "mode": 0,
        "global_pooling": False,
        "window": [1, 1],
        "stride": [1, 1],
        "pad": [0, 0, 0, 0],
        "dilation": [1, 1, 1, 1],
        "ceil_mode": 0,
        "data_format": "NCHW",
    },
    note="pad is [top, bottom, left, right]; ceil_mode 0 rounds sizes up, 1 down",
)


def lower(b: Builder, n: Site) -> str:
    mode, layout = int(n.attr("mode", 0)), format_of(n, "NCHW")
    if mode not in (0, 1) or n.rank() != 4 or any(number != 1 for number in n.attr("dilation", [1])):
        raise OpError(
            f"Pooling {n.name!r} has mode {mode} and {n.rank()} dims; it takes 0 (max) or 1 (average), 4 dims and no dilation"
        )
    x = first(b, n.input(0), layout)
    if n.attr("global_pooling", False):
        return back(b, str(b.op("GlobalAveragePool" if mode else "GlobalMaxPool", x)), layout)
    window, stride, pad = (
        [int(number) for number in n.attr(key, [value])] for key, value in (("window", 1), ("stride", 1), ("pad", 0))
    )
    if len(pad) == 1:
        pad *= 4
    if len(window) not in (1, 2) or len(stride) not in (1, 2) or len(pad) != 4:
        raise OpError(
            f"Pooling {n.name!r} has window {window}, stride {stride} and pad {pad}; give 1 or 2, 1 or 2, and 4 numbers"
        )
    ceil, sizes = not n.attr("ceil_mode", 0), (n.shape()[layout.index("H")], n.shape()[layout.index("W")])
    rows = plan(n, sizes[0], window[0], stride[0], pad[:2], ceil)
    columns = plan(n, sizes[1], window[-1], stride[-1], pad[2:], ceil)
    return back(b, pool(b, x, rows, columns, bool(mode), n.dtype()), layout)
