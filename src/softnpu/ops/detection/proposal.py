"""Proposal: the regions that the first stage of Faster R-CNN hands to the second."""

from __future__ import annotations

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape, Site
from softnpu.ops.common.inputs import ranks
from softnpu.ops.common.numbers import INT32
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.detection._boxes import suppress

SCHEMA = Schema(
    "Proposal",
    ("cls_prob", "bbox_delta", "im_info"),
    ("rois", "actual_rois_num"),
    attrs={
        "feat_stride": REQUIRED,
        "base_size": REQUIRED,
        "min_size": REQUIRED,
        "ratio": REQUIRED,
        "scale": REQUIRED,
        "pre_nms_topn": 3000,
        "post_nms_topn": 304,
        "iou_threshold": 0.7,
        "output_actual_rois_num": False,
    },
    note="rois is [batch, 5, post_nms_topn]: image, x1, y1, x2, y2; the rest is 0",
)


def anchors_of(base: float, ratios: list[float], scales: list[float]) -> Array:
    """The anchors of the original Faster R-CNN: sides of whole pixels, ratio by ratio and scale by scale."""
    centre = (base - 1) / 2
    anchors = []
    for ratio in ratios:
        width = np.round(np.sqrt(base * base / ratio))
        height = np.round(width * ratio)
        for scale in scales:
            half = (np.array([width, height]) * scale - 1) / 2
            anchors.append(np.concatenate([centre - half, centre + half]))
    return np.array(anchors)


def compute(n: Site, prob: Array, delta: Array, info: Array) -> tuple[Array, ...]:
    anchors = anchors_of(float(n.need("base_size")), _floats(n, "ratio"), _floats(n, "scale"))
    count, batch = len(anchors), len(prob)
    rows, columns = prob.shape[2:]
    stride = float(n.need("feat_stride"))
    y, x = np.meshgrid(np.arange(rows) * stride, np.arange(columns) * stride, indexing="ij")
    all_anchors = (np.stack([x, y, x, y], -1)[:, :, None, :] + anchors).reshape(-1, 4)
    post = int(n.attr("post_nms_topn", 304))
    rois, numbers = np.zeros((batch, 5, post), prob.dtype), np.zeros((batch, 8), np.int32)
    for image in range(batch):
        scores = prob[image, count:].transpose(1, 2, 0).reshape(-1)
        moves = delta[image].transpose(1, 2, 0).reshape(-1, 4)
        kept = _select(n, moved(all_anchors, moves), scores, info.reshape(batch, -1)[image])[:post]
        rois[image, 0, : len(kept)] = image
        rois[image, 1:, : len(kept)] = kept.T
        numbers[image, 0] = len(kept)
    return rois, numbers


def moved(anchors: Array, delta: Array) -> Array:
    """Anchors with offsets applied; the last pixel belongs to a box."""
    size = anchors[:, 2:] - anchors[:, :2] + 1
    centre = anchors[:, :2] + size / 2 + delta[:, :2] * size
    half = np.exp(delta[:, 2:]) * size / 2
    return np.concatenate([centre - half, centre + half], 1)


def _select(n: Site, boxes: Array, scores: Array, info: Array) -> Array:
    height, width, scale = (float(number) for number in info[:3])
    boxes = boxes.clip(0, np.array([width, height, width, height]) - 1)
    large = (boxes[:, 2:] - boxes[:, :2] + 1 >= float(n.need("min_size")) * scale).all(axis=1)
    boxes, scores = boxes[large], scores[large]
    kept = suppress(boxes, scores, float(n.attr("iou_threshold", 0.7)), int(n.attr("pre_nms_topn", 3000)), 1.0)
    return np.asarray(boxes[kept])


def _floats(n: Site, attribute: str) -> list[float]:
    listed = n.need(attribute)
    return [float(number) for number in listed] if isinstance(listed, list | tuple) else [float(listed)]


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    ranks(n, 4, 4)
    batch, post, count = (
        n.shape(0)[0],
        int(n.attr("post_nms_topn", 304)),
        len(_floats(n, "ratio")) * len(_floats(n, "scale")),
    )
    scores, offsets = n.shape(0)[1], n.shape(1)[1]
    if (
        scores != 2 * count
        or offsets != 4 * count
        or n.shape(0)[2:] != n.shape(1)[2:]
        or n.shape(2)[-1] < 3
        or post < 1
    ):
        raise OpError(
            f"Proposal {n.name!r} has {count} anchors a cell, scores {list(n.shape(0))}, offsets {list(n.shape(1))} and im_info "
            f"{list(n.shape(2))}, of which {post} shall stay; there must be 2 scores and 4 offsets an anchor, and 3 numbers an image"
        )
    return [(n.dtype(), (batch, 5, post)), (INT32, (batch, 8))]
