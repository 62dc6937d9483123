"""Grid samplers: a row each."""

from softnpu.ops.common.schema import Row, Schema
from softnpu.ops.image._grid import lower_grid

ROWS = (
    Row(
        Schema(
            "GridSampler2D",
            ("x", "grid"),
            attrs={"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False},
        ),
        lower_grid,
        "pictures read at the places that a grid names",
    ),
    Row(
        Schema(
            "GridSampler3D",
            ("x", "grid"),
            attrs={"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False},
        ),
        lower_grid,
        "volumes read at the places that a grid names",
    ),
)
