"""ScatterNdUpdate: var with slices replaced."""

from softnpu.ops._scatter import scatter_nd
from softnpu.ops._schema import Schema

SCHEMA = Schema("ScatterNdUpdate", ("var", "indices", "updates"), ("var",), {"use_locking": False})
lower = scatter_nd("none")
