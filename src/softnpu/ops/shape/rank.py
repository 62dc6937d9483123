"""Rank: the number of dims of x."""

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Rank")


def lower(b: Builder, n: Site) -> str:
    return b.const(np.array(n.rank(0), np.int32))
