"""BoundingBoxDecode: boxes from regions and the moves that a network predicts, cut to the picture."""

import math

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT
from softnpu.ops.common.precision import narrow, wide
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.detection._box_coder import centres, four, row

SCHEMA = Schema(
    "BoundingBoxDecode",
    ("rois", "deltas"),
    ("bboxes",),
    {"means": [0.0] * 4, "stds": [1.0] * 4, "max_shape": REQUIRED, "wh_ratio_clip": 0.016},
)


def lower(b: Builder, n: Site) -> str:
    limits, ratio = [float(number) for number in n.need("max_shape")], float(n.attr("wh_ratio_clip", 0.016))
    if len(limits) not in (1, 2) or ratio <= 0:
        raise OpError(
            f"BoundingBoxDecode {n.name!r} has max_shape {limits} and wh_ratio_clip {ratio}; give (height, width) and a positive ratio"
        )
    centre, size = centres(b, wide(b, n))
    moves = str(b.op("Add", b.op("Mul", wide(b, n, 1), row(b, four(n, "stds", 1.0))), row(b, four(n, "means", 0.0))))
    bound = abs(math.log(ratio))
    growth = b.clip(b.slice(moves, [2], [4], [1]), -bound, bound, FLOAT)
    middle = b.op("Add", centre, b.op("Mul", b.slice(moves, [0], [2], [1]), size))
    half = b.op("Mul", b.op("Mul", size, b.op("Exp", growth)), b.scalar(0.5, FLOAT))
    pixel = b.scalar(0.5, FLOAT)
    corners = b.op("Add", b.op("Sub", middle, half), pixel), b.op("Sub", b.op("Add", middle, half), pixel)
    most = row(b, [limits[-1] - 1, limits[0] - 1] * 2)
    inside = b.op("Min", b.clip(str(b.op("Concat", *corners, axis=1)), 0.0, None, FLOAT), most)
    return narrow(b, n, str(inside))
