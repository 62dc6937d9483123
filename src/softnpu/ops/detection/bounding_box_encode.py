"""BoundingBoxEncode: the moves that lead from anchors to boxes, as Faster R-CNN learns them."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import narrow, wide
from softnpu.ops.common.schema import Schema
from softnpu.ops.detection._box_coder import centres, four, row

SCHEMA = Schema(
    "BoundingBoxEncode", ("anchor_box", "ground_truth_box"), ("delta",), {"means": [0.0] * 4, "stds": [1.0] * 4}
)


def lower(b: Builder, n: Site) -> str:
    centre, size = centres(b, wide(b, n))
    target, target_size = centres(b, wide(b, n, 1))
    moves = b.op("Div", b.op("Sub", target, centre), size)
    growth = b.op("Log", b.op("Abs", b.op("Div", target_size, size)))
    deltas = b.op("Concat", moves, growth, axis=1)
    scaled = b.op("Div", b.op("Sub", deltas, row(b, four(n, "means", 0.0))), row(b, four(n, "stds", 1.0)))
    return narrow(b, n, str(scaled))
