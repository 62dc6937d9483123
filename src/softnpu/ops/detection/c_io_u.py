"""CIoU: DIoU less the difference of the aspects; the second output is the difference of the angles."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow
from softnpu.ops.common.schema import Schema
from softnpu.ops.detection._iou import ATTRS, ciou, pairs

SCHEMA = Schema("CIoU", ("bboxes", "gtboxes"), ("overlap", "atan_sub"), {**ATTRS, "atan_sub_flag": False})


def lower(b: Builder, n: Site) -> tuple[str, str]:
    overlap, angle = ciou(b, pairs(b, n, bool(n.attr("is_cross", True))))
    return narrow(b, n, overlap), narrow(b, n, angle)
