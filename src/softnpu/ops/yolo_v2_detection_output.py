"""YoloV2DetectionOutput: detections out of one Yolo map."""

from __future__ import annotations

import numpy as np

from softnpu.ops import _yolo_boxes as yolo
from softnpu.ops._lower import Array, Shape, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema(
    "YoloV2DetectionOutput",
    ("coord_data", "obj_prob", "classes_prob", "img_info"),
    ("box_out", "box_out_num"),
    attrs={**yolo.ATTRS, "biases": REQUIRED, "boxes": 5, "classes": 20},
    note="box_out is x1, y1, x2, y2, score, label by row; `grids` is height and width of the map; relative must be true",
)


def compute(n: Site, coord: Array, obj: Array, score: Array, info: Array) -> tuple[Array, ...]:
    anchors = np.array(n.need("biases"), np.float64).reshape(-1, 2)
    (grid,) = yolo.grids_of(n, 1)
    return yolo.answer(n, [yolo.Head(coord, obj, score, grid, anchors, True)], info.reshape(len(coord), 4), False)


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    return yolo.shapes(n, 1, 5, 20, False)
