"""SoftmaxV2: softmax over one or several axes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.norm._softmax import softmax

SCHEMA = Schema("SoftmaxV2", ("x",), attrs={"axes": [-1]})


def lower(b: Builder, n: Site) -> str:
    return softmax(b, n, log=False)
