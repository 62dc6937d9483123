"""From the three outputs of Yolo to detections: what YoloV2DetectionOutput and YoloV3DetectionOutputV2 share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softnpu.ops._boxes import suppress
from softnpu.ops._lower import Array, OpError, Shape, Site

ATTRS = {
    "coords": 4,
    "relative": True,
    "obj_threshold": 0.5,
    "post_nms_topn": 512,
    "score_threshold": 0.5,
    "iou_threshold": 0.45,
    "pre_nms_topn": 512,
    "grids": [],
}


@dataclass
class Head:
    """One output map: [batch, …] rows of Yolo, its grid, its anchors in cells (`cells` true) or pixels of the network."""

    coord: Array
    obj: Array
    score: Array
    grid: tuple[int, int]
    anchors: Array
    cells: bool


def boxes_of(head: Head, image: int, net: Array) -> tuple[Array, Array, Array]:
    """Centre and size [n, 4] relative to the network's input, objectness [n], class scores [classes, n]."""
    rows, columns = head.grid
    area, boxes = rows * columns, len(head.anchors)
    x, y, h, w = head.coord[image, :, :area].reshape(4, boxes, rows, columns).astype(np.float64)
    unit = np.array([columns, rows]) if head.cells else net[[1, 0]]
    width = np.exp(w) * (head.anchors[:, 0] / unit[0])[:, None, None]
    height = np.exp(h) * (head.anchors[:, 1] / unit[1])[:, None, None]
    centre_x = (x + np.arange(columns)) / columns
    centre_y = (y + np.arange(rows)[:, None]) / rows
    found = np.stack([centre_x, centre_y, width, height], -1).reshape(-1, 4)
    return found, head.obj[image, : boxes * area], head.score[image, :, : boxes * area]


def to_image(boxes: Array, info: Array, stretched: bool) -> Array:
    """Corners in pixels of the image: bars are taken away where the image was fitted into the network's input with bars."""
    net, size = info[[1, 0]], info[[3, 2]]
    part = np.ones(2) if stretched else size * (net / size).min() / net
    centre = (boxes[:, :2] - (1 - part) / 2) / part
    half = boxes[:, 2:] / part / 2
    return np.asarray(np.concatenate([centre - half, centre + half], 1) * np.concatenate([size, size]))


def detect(n: Site, heads: list[Head], image: int, info: Array) -> Array:
    """Rows x1, y1, x2, y2, score, label of one image, by label and then by score."""
    found = [boxes_of(head, image, info) for head in heads]
    obj = np.concatenate([one[1] for one in found])
    scores = np.concatenate([one[2] for one in found], 1)
    likely = np.flatnonzero(obj > float(n.attr("obj_threshold", 0.5)))
    boxes = to_image(
        np.concatenate([one[0] for one in found])[likely], info, bool(n.attr("resize_origin_img_to_net", False))
    )
    obj, scores = obj[likely], scores[:, likely]
    hits = []
    for label, own in enumerate(scores * obj):
        good = np.flatnonzero(own > float(n.attr("score_threshold", 0.5)))
        kept = good[
            suppress(boxes[good], own[good], float(n.attr("iou_threshold", 0.45)), int(n.attr("pre_nms_topn", 512)))
        ]
        hits += [(*boxes[one], float(own[one]), float(label)) for one in kept]
    best = sorted(hits, key=lambda hit: -hit[4])[: int(n.attr("post_nms_topn", 512))]
    return np.array(sorted(best, key=lambda hit: hit[5])).reshape(-1, 6)


def answer(n: Site, heads: list[Head], info: Array, packed: bool) -> tuple[Array, Array]:
    """box_out [batch, 6, post_nms_topn] and box_out_num [batch, 8]; packed, six rows as long as there are boxes."""
    top, batch = int(n.attr("post_nms_topn", 512)), len(info)
    out, numbers = np.zeros((batch, 6, top), heads[0].coord.dtype), np.zeros((batch, 8), np.int32)
    for image in range(batch):
        rows = detect(n, heads, image, info[image].astype(np.float64))
        numbers[image, 0] = len(rows)
        if packed:
            out[image].reshape(-1)[: rows.size] = rows.T.reshape(-1)
        else:
            out[image, :, : len(rows)] = rows.T
    return (out.reshape(batch, 6 * top) if packed else out), numbers


def check(n: Site) -> None:
    """Refuse what is not supported."""
    if int(n.attr("coords", 4)) != 4 or not n.attr("relative", True):
        raise OpError(
            f"{n.type} {n.name!r} has {n.attr('coords', 4)} coords, relative {n.attr('relative', True)}; it takes 4 and true"
        )


def grids_of(n: Site, many: int) -> list[tuple[int, int]]:
    """Rows and columns of the maps, which the padded rows do not tell."""
    flat = [int(one) for one in n.attr("grids", [])]
    if len(flat) != 2 * many:
        raise OpError(f"{n.type} {n.name!r} has the grids {flat}; give height and width of its {many} maps")
    return list(zip(flat[0::2], flat[1::2], strict=True))


def shapes(n: Site, many: int, boxes: int, classes: int, packed: bool) -> list[tuple[int, Shape | None]]:
    """Types and shapes of both outputs of an operator with so many maps and default numbers of boxes and classes; refuses what does not fit."""
    check(n)
    boxes, classes, top = (
        int(n.attr("boxes", boxes)),
        int(n.attr("classes", classes)),
        int(n.attr("post_nms_topn", 512)),
    )
    if len(n.inputs) != 3 * many + 1 or len(n.need("biases")) != 2 * many * boxes or top < 1:
        raise OpError(
            f"{n.type} {n.name!r} has {len(n.inputs)} inputs and {len(n.need('biases'))} biases for {many} maps of {boxes} boxes; "
            "give three inputs a map and img_info, and two biases a box"
        )
    batch = n.shape(0)[0]
    for index, (rows, columns) in enumerate(grids_of(n, many)):
        area = rows * columns
        coord, obj, score = n.shape(index), n.shape(many + index), n.shape(2 * many + index)
        if (
            (len(coord), len(obj), len(score)) != (3, 2, 3)
            or coord[1] != 4 * boxes
            or score[1] != classes
            or min(coord[2], obj[1] // boxes, score[2] // boxes) < area
        ):
            raise OpError(
                f"{n.type} {n.name!r} has {list(coord)}, {list(obj)} and {list(score)} for {rows}x{columns} cells; take what Yolo makes"
            )
    return [(n.dtype(), (batch, 6 * top) if packed else (batch, 6, top)), (3, (batch, 8))]
