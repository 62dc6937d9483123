"""TopKD: the k largest elements along a dim, and where they are; k is an attribute."""

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.reduce._top import ATTRS, top

SCHEMA = Schema("TopKD", ("x", "assist_seq?"), ("values", "indices"), attrs={"k": REQUIRED, **ATTRS})


def lower(b: Builder, n: Site) -> tuple[str, str]:
    return top(b, n, b.const(np.array([int(n.need("k"))], np.int64)))
