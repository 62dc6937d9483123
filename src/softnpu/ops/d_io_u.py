"""DIoU: the overlap of boxes less the distance of their centres."""

from softnpu.ops._iou import ATTRS, diou, pairs
from softnpu.ops._lower import Builder, Site
from softnpu.ops._norms import narrow
from softnpu.ops._schema import Schema

SCHEMA = Schema("DIoU", ("bboxes", "gtboxes"), ("overlap",), {**ATTRS, "is_cross": False})


def lower(b: Builder, n: Site) -> str:
    return narrow(b, n, diou(b, pairs(b, n, bool(n.attr("is_cross", False)))))
