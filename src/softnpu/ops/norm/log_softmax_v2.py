"""LogSoftmaxV2: the logarithm of the softmax over one or several axes."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.norm._softmax import softmax

SCHEMA = Schema("LogSoftmaxV2", ("logits",), attrs={"axes": [-1]})


def lower(b: Builder, n: Site) -> str:
    return softmax(b, n, log=True)
