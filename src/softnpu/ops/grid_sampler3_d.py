"""GridSampler3D: volumes read at the places that a grid names."""

from softnpu.ops._grid import lower_grid
from softnpu.ops._schema import Schema

SCHEMA = Schema(
    "GridSampler3D",
    ("x", "grid"),
    attrs={"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False},
)
lower = lower_grid
