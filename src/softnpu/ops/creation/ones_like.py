"""OnesLike: ones in the shape and type of x."""

import numpy as np

from softnpu.base.dtypes import numpy_name
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("OnesLike")


def lower(b: Builder, n: Site) -> str:
    value = np.array([1], numpy_name(n.dtype(0)))
    return str(b.op("ConstantOfShape", b.op("Shape", n.input(0)), value=value))
