"""ScatterNdMax: var with the larger of its slices and the updates."""

from softnpu.ops._scatter import scatter_nd
from softnpu.ops._schema import Schema

SCHEMA = Schema("ScatterNdMax", ("var", "indices", "updates"), ("var",), {"use_locking": False})
lower = scatter_nd("max")
