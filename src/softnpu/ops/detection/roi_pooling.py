"""ROIPooling: the maximum in the bins of every region (the layer of Fast R-CNN)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.detection._rois import rows

SCHEMA = Schema(
    "ROIPooling",
    ("x", "rois", "roi_actual_num?"),
    attrs={"pooled_h": REQUIRED, "pooled_w": REQUIRED, "spatial_scale_h": 0.0625, "spatial_scale_w": 0.0625},
    note="regions are [count, 5] or [batch, 5, count]; with roi_actual_num the rest is pooled too",
)


def lower(b: Builder, n: Site) -> str:
    height, width = int(n.need("pooled_h")), int(n.need("pooled_w"))
    scale_h, scale_w = float(n.attr("spatial_scale_h", 0.0625)), float(n.attr("spatial_scale_w", 0.0625))
    if min(height, width) < 1 or min(scale_h, scale_w) <= 0:
        raise OpError(
            f"ROIPooling {n.name!r} pools to {height}x{width} with scales {scale_h} and {scale_w}; all must be positive"
        )
    regions, scale = rows(b, n), scale_h
    if scale_h != scale_w:
        regions, scale = (
            b.op("Mul", regions, b.const([1.0, scale_w, scale_h, scale_w, scale_h], max(n.dtype(1), 0))),
            1.0,
        )
    return str(b.op("MaxRoiPool", n.input(0), regions, pooled_shape=[height, width], spatial_scale=scale))
