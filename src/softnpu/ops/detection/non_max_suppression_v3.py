"""NonMaxSuppressionV3: the places of the best boxes that do not overlap one another too much."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT, INT32, INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "NonMaxSuppressionV3",
    ("boxes", "scores", "max_output_size", "iou_threshold", "score_threshold"),
    ("selected_indices",),
    attrs={"offset": 0},
    note="offset must be 0",
)


def lower(b: Builder, n: Site) -> str:
    if n.attr("offset", 0):
        raise OpError(f"NonMaxSuppressionV3 {n.name!r} has the offset {n.attr('offset')}; only 0 is supported")
    boxes, scores = (b.cast(n.input(index), FLOAT) if n.dtype(index) != FLOAT else n.input(index) for index in (0, 1))
    limit = b.cast(b.reshape(n.input(2), [1]), INT64)
    iou, score = (b.cast(b.reshape(n.input(index), [1]), FLOAT) for index in (3, 4))
    selected = b.op("NonMaxSuppression", b.unsqueeze(boxes, [0]), b.unsqueeze(scores, [0, 1]), limit, iou, score)
    return b.cast(str(b.op("Gather", selected, b.const(2), axis=1)), INT32)
