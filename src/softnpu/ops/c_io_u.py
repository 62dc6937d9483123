"""CIoU: DIoU less the difference of the aspects; the second output is the difference of the angles."""

from softnpu.ops._iou import ATTRS, ciou, pairs
from softnpu.ops._lower import Builder, Site
from softnpu.ops._norms import narrow
from softnpu.ops._schema import Schema

SCHEMA = Schema("CIoU", ("bboxes", "gtboxes"), ("overlap", "atan_sub"), {**ATTRS, "atan_sub_flag": False})


def lower(b: Builder, n: Site) -> tuple[str, str]:
    overlap, angle = ciou(b, pairs(b, n, bool(n.attr("is_cross", True))))
    return narrow(b, n, overlap), narrow(b, n, angle)
