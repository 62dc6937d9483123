"""SSDDetectionOutput: from offsets, confidences and default boxes to detections, class by class."""

from __future__ import annotations

import math

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape, Site
from softnpu.ops.common.numbers import INT32
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.detection._boxes import suppress

SCHEMA = Schema(
    "SSDDetectionOutput",
    ("bbox_delta", "score", "anchors"),
    ("out_boxnum", "y"),
    attrs={
        "num_classes": REQUIRED,
        "share_location": True,
        "background_label_id": 0,
        "iou_threshold": 0.3,
        "top_k": 200,
        "eta": 1.0,
        "variance_encoded_in_target": False,
        "code_type": 1,
        "keep_top_k": -1,
        "confidence_threshold": 0.0,
    },
    note="a row of y is image, label, score, x1, y1, x2, y2, 0; the first value of a row of out_boxnum counts them",
)
_CORNER, _CENTER_SIZE, _CORNER_SIZE = 1, 2, 3
_ROUND = 128


def compute(n: Site, delta: Array, score: Array, anchors: Array) -> tuple[Array, ...]:
    classes, batch = int(n.need("num_classes")), len(delta)
    shared = bool(n.attr("share_location", True))
    length = _length(n)
    numbers, detections = np.zeros((batch, 8), np.int32), np.zeros((batch, length, 8), delta.dtype)
    conf = score.reshape(batch, -1, classes)
    offsets = delta.reshape(batch, conf.shape[1], 1 if shared else classes, 4)
    for image in range(batch):
        priors = anchors.reshape(len(anchors), -1, conf.shape[1], 4)[image % len(anchors)]
        boxes = decode(n, offsets[image], priors)
        rows = _detect(n, boxes, conf[image])
        numbers[image, 0] = len(rows)
        if rows:
            detections[image, : len(rows), 0] = image
            detections[image, : len(rows), 1:7] = rows
    return numbers, detections


def _detect(n: Site, boxes: Array, conf: Array) -> list[tuple[float, ...]]:
    """Rows (label, score, corners) of one image, by label and then by score."""
    hits: list[tuple[float, int, int]] = []
    threshold, background = float(n.attr("confidence_threshold", 0.0)), int(n.attr("background_label_id", 0))
    for label in range(conf.shape[1]):
        if label == background:
            continue
        likely = np.flatnonzero(conf[:, label] > threshold)
        own = boxes[likely, label % boxes.shape[1]]
        kept = suppress(
            own,
            conf[likely, label],
            float(n.attr("iou_threshold", 0.3)),
            int(n.attr("top_k", 200)),
            0.0,
            float(n.attr("eta", 1.0)),
        )
        hits += [(float(conf[likely[index], label]), label, int(likely[index])) for index in kept]
    best = sorted(hits, key=lambda hit: -hit[0])[: int(n.attr("keep_top_k", -1))]
    best.sort(key=lambda hit: hit[1])
    return [(label, score, *boxes[index, label % boxes.shape[1]]) for score, label, index in best]


def decode(n: Site, delta: Array, priors: Array) -> Array:
    """Corners of the boxes [priors, location classes, 4]."""
    code = int(n.attr("code_type", 1))
    corners = priors[0][:, None, :]
    variance = 1.0 if n.attr("variance_encoded_in_target", False) else priors[1][:, None, :]
    shift = delta * variance
    size = corners[..., 2:] - corners[..., :2]
    if code == _CORNER:
        return np.asarray(corners + shift)
    if code == _CORNER_SIZE:
        return np.asarray(corners + shift * np.concatenate([size, size], -1))
    if code != _CENTER_SIZE:
        raise OpError(
            f"SSDDetectionOutput {n.name!r} has the code_type {code}; use 1 (corners), 2 (centre and size) or 3 (corners by size)"
        )
    centre = (corners[..., :2] + corners[..., 2:]) / 2 + shift[..., :2] * size
    half = np.exp(shift[..., 2:]) * size / 2
    return np.concatenate([centre - half, centre + half], -1)


def _length(n: Site) -> int:
    keep = int(n.attr("keep_top_k", -1))
    if keep < 1:
        raise OpError(
            f"SSDDetectionOutput {n.name!r} has keep_top_k {keep}; give how many detections an image may have"
        )
    return -(-keep // _ROUND) * _ROUND


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    classes, anchors = int(n.need("num_classes")), n.shape(2)
    if min(n.rank(0), n.rank(1)) < 1:
        raise OpError(f"SSDDetectionOutput {n.name!r} has offsets or scores without dims; they must be [batch, …]")
    encoded = bool(n.attr("variance_encoded_in_target", False))
    batch, boxes = n.shape(0)[0], math.prod(n.shape(1)[1:]) // max(classes, 1)
    location = boxes * 4 * (1 if n.attr("share_location", True) else classes)
    fits = (
        math.prod(n.shape(0)[1:]) == location
        and boxes * classes == math.prod(n.shape(1)[1:])
        and n.shape(1)[0] == batch
    )
    if (
        not fits
        or classes < 1
        or len(anchors) < 3
        or math.prod(anchors[2:]) != 4 * boxes
        or anchors[1] not in ((1, 2) if encoded else (2,))
    ):
        raise OpError(
            f"SSDDetectionOutput {n.name!r} has offsets {list(n.shape(0))}, scores {list(n.shape(1))} and boxes {list(anchors)} for "
            f"{classes} classes; they do not fit together"
        )
    return [(INT32, (batch, 8)), (n.dtype(), (batch, _length(n), 8))]
