"""DIoU: the overlap of boxes less the distance of their centres."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow
from softnpu.ops.common.schema import Schema
from softnpu.ops.detection._iou import ATTRS, diou, pairs

SCHEMA = Schema("DIoU", ("bboxes", "gtboxes"), ("overlap",), {**ATTRS, "is_cross": False})


def lower(b: Builder, n: Site) -> str:
    return narrow(b, n, diou(b, pairs(b, n, bool(n.attr("is_cross", False)))))
