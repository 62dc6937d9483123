"""TensorScatterUpdate: a copy of x with slices replaced."""

from softnpu.ops._scatter import scatter_nd
from softnpu.ops._schema import Schema

SCHEMA = Schema("TensorScatterUpdate", ("x", "indices", "updates"))
lower = scatter_nd("none")
