"""LogSoftmaxV2: the logarithm of the softmax over one or several axes."""

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema
from softnpu.ops._softmax import softmax

SCHEMA = Schema("LogSoftmaxV2", ("logits",), attrs={"axes": [-1]})


def lower(b: Builder, n: Site) -> str:
    return softmax(b, n, log=True)
