"""SoftmaxV2: softmax over one or several axes."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema
from softnpu.ops._softmax import softmax

SCHEMA = Schema("SoftmaxV2", ("x",), attrs={"axes": [-1]})


def lower(b: Builder, n: Site) -> str:
    return softmax(b, n, log=False)
