"""Writes of slices that differ in how they meet what was there: a row each."""

from softnpu.ops.common.schema import Row, Schema
from softnpu.ops.indexing._scatter import scatter_nd

ROWS = (
    Row(
        Schema("ScatterNdAdd", ("var", "indices", "updates"), ("var",), {"use_locking": False}),
        scatter_nd("add"),
        "var with slices added to",
    ),
    Row(
        Schema("ScatterNdMax", ("var", "indices", "updates"), ("var",), {"use_locking": False}),
        scatter_nd("max"),
        "var with the larger of its slices and the updates",
    ),
    Row(
        Schema("ScatterNdMin", ("var", "indices", "updates"), ("var",), {"use_locking": False}),
        scatter_nd("min"),
        "var with the smaller of its slices and the updates",
    ),
    Row(
        Schema("ScatterNdUpdate", ("var", "indices", "updates"), ("var",), {"use_locking": False}),
        scatter_nd("none"),
        "var with slices replaced",
    ),
    Row(
        Schema("TensorScatterUpdate", ("x", "indices", "updates")),
        scatter_nd("none"),
        "a copy of x with slices replaced",
    ),
)
