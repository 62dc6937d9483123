"""ScatterNdAdd: var with slices added to."""

from softnpu.ops._scatter import scatter_nd
from softnpu.ops._schema import Schema

SCHEMA = Schema("ScatterNdAdd", ("var", "indices", "updates"), ("var",), {"use_locking": False})
lower = scatter_nd("add")
