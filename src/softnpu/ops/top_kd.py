"""TopKD: the k largest elements along a dim, and where they are; k is an attribute."""

import numpy as np

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import REQUIRED, Schema
from softnpu.ops._top import ATTRS, top

SCHEMA = Schema("TopKD", ("x", "assist_seq?"), ("values", "indices"), attrs={"k": REQUIRED, **ATTRS})


def lower(b: Builder, n: Site) -> tuple[str, str]:
    return top(b, n, b.const(np.array([int(n.need("k"))], np.int64)))
