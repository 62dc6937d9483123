"""GIoU: the generalised overlap of paired boxes, a row per pair."""

from softnpu.ops._iou import ATTRS, giou, pairs
from softnpu.ops._lower import Builder, Site
from softnpu.ops._norms import narrow
from softnpu.ops._schema import Schema

SCHEMA = Schema("GIoU", ("bboxes", "gtboxes"), ("overlap",), {**ATTRS, "is_cross": False})


def lower(b: Builder, n: Site) -> str:
    found = giou(b, pairs(b, n, bool(n.attr("is_cross", False))))
    return narrow(b, n, b.transpose(found, [1, 0]))
