"""BiasAdd: adds a value per channel."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import channels_last
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("BiasAdd", ("x", "bias"), attrs={"data_format": "NHWC"})


def lower(b: Builder, n: Site) -> str:
    layout = channels_last(n)
    if layout not in ("NHWC", "NCHW", "NDHWC", "NCDHW", "ND", "NC"):
        raise OpError(f"BiasAdd {n.name!r} has the data format {layout!r}; use NHWC, NCHW, NDHWC or NCDHW")
    bias = n.input(1)
    if layout[:2] == "NC" and n.rank(0) > 2:
        bias = b.unsqueeze(bias, range(1, n.rank(0) - 1))
    return str(b.op("Add", n.input(0), bias))
