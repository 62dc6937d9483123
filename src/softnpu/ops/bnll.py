"""BNLL: log(1 + e^x), Caffe's binomial normal log likelihood."""

from softnpu.ops._common import plain
from softnpu.ops._schema import Schema

SCHEMA = Schema("BNLL")
lower = plain("Softplus")
