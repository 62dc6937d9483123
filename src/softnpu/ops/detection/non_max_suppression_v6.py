"""NonMaxSuppressionV6: the boxes that stay, a row (batch, class, box) each."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT32, INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "NonMaxSuppressionV6", ("boxes", "scores", "max_output_size?", "iou_threshold?", "score_threshold?", "index_id?"),
    ("selected_indices",), {"center_point_box": 0, "max_boxes_size": 0}, note="no index_id, max_boxes_size 0",
)  # fmt: skip


def lower(b: Builder, n: Site) -> str:
    if n.has(5) or int(n.attr("max_boxes_size", 0)):
        raise OpError(
            f"NonMaxSuppressionV6 {n.name!r} has index_id or max_boxes_size; they are not supported, leave them out"
        )
    limits: list[str | None] = [None, None, None]
    if n.has(2):
        limits[0] = b.reshape(n.input(2) if n.dtype(2) == INT64 else b.cast(n.input(2), INT64), [1])
    for i in (3, 4):
        if n.has(i):
            limits[i - 2] = b.reshape(n.input(i), [1])
    selected = b.op(
        "NonMaxSuppression", n.input(0), n.input(1), *limits, center_point_box=int(n.attr("center_point_box", 0))
    )
    return b.cast(str(selected), INT32)
