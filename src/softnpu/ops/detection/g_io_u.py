"""GIoU: the generalised overlap of paired boxes, a row per pair."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow
from softnpu.ops.common.schema import Schema
from softnpu.ops.detection._iou import ATTRS, giou, pairs

SCHEMA = Schema("GIoU", ("bboxes", "gtboxes"), ("overlap",), {**ATTRS, "is_cross": False})


def lower(b: Builder, n: Site) -> str:
    overlap = giou(b, pairs(b, n, bool(n.attr("is_cross", False))))
    return narrow(b, n, b.transpose(overlap, [1, 0]))
