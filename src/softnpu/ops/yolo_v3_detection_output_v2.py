"""YoloV3DetectionOutputV2: detections out of several Yolo maps."""

from __future__ import annotations

import numpy as np

from softnpu.ops import _yolo_boxes as yolo
from softnpu.ops._lower import Array, OpError, Shape, Site
from softnpu.ops._schema import REQUIRED, Schema

SCHEMA = Schema(
    "YoloV3DetectionOutputV2",
    ("x*",),
    ("box_out", "box_out_num"),
    attrs={
        **yolo.ATTRS,
        "biases": REQUIRED,
        "boxes": 3,
        "classes": 80,
        "N": 10,
        "resize_origin_img_to_net": False,
        "out_box_dim": 3,
        "alpha": 2.0,
    },
    note="x is coordinates, objectness and classes of all maps, then img_info; `grids` is height and width of each map; "
    "with out_box_dim 2 the six rows are packed to the number of boxes; relative must be true and alpha 2",
)


def compute(n: Site, *x: Array) -> tuple[Array, ...]:
    many, boxes = (len(x) - 1) // 3, int(n.attr("boxes", 3))
    biases = np.array(n.need("biases"), np.float64)
    anchors = biases.reshape(many, boxes, 2)
    grids = yolo.grids_of(n, many)
    heads = [yolo.Head(x[i], x[many + i], x[2 * many + i], grids[i], anchors[i], False) for i in range(many)]
    return yolo.answer(n, heads, x[-1].reshape(len(x[0]), 4), n.attr("out_box_dim", 3) == 2)


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    if n.attr("alpha", 2.0) != 2.0 or n.attr("out_box_dim", 3) not in (2, 3):
        raise OpError(
            f"YoloV3DetectionOutputV2 {n.name!r} has alpha {n.attr('alpha')}, out_box_dim {n.attr('out_box_dim')}; use 2 and 2 or 3"
        )
    return yolo.shapes(n, (len(n.inputs) - 1) // 3, 3, 80, n.attr("out_box_dim", 3) == 2)
