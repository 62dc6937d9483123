"""ROIAlign: bilinear averages in the bins of every region (the layer of Mask R-CNN)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.detection._rois import rows

SCHEMA = Schema(
    "ROIAlign",
    ("features", "rois", "rois_n?"),
    attrs={
        "spatial_scale": REQUIRED,
        "pooled_height": REQUIRED,
        "pooled_width": REQUIRED,
        "sample_num": 2,
        "roi_end_mode": 1,
    },
    note="roi_end_mode 0: corners as they are; 1: the last pixel belongs to a region; 3: shifted by half a pixel",
)
_SHIFTED = 16  # the opset whose RoiAlign can shift by half a pixel
_MODES = {0: "output_half_pixel", 1: "output_half_pixel", 3: "half_pixel"}


def lower(b: Builder, n: Site) -> str:
    mode = int(n.attr("roi_end_mode", 1))
    if mode not in _MODES:
        raise OpError(f"ROIAlign {n.name!r} has the roi_end_mode {mode}; use 0, 1 or 3")
    if _MODES[mode] != _MODES[0] and b.opset < _SHIFTED:
        raise OpError(
            f"ROIAlign {n.name!r} has the roi_end_mode {mode}, which needs ONNX opset {_SHIFTED}; export with it"
        )
    regions = rows(b, n)
    image = b.cast(b.squeeze(b.slice(regions, [0], [1], [1]), [1]), INT64)
    corners = b.slice(regions, [1], [5], [1])
    if mode == 1:
        corners = str(b.op("Add", corners, b.const([0.0, 0.0, 1.0, 1.0], max(n.dtype(1), 0))))
    return str(
        b.op(
            "RoiAlign",
            n.input(0),
            corners,
            image,
            mode="avg",
            coordinate_transformation_mode=_MODES[mode] if b.opset >= _SHIFTED else None,
            output_height=int(n.need("pooled_height")),
            output_width=int(n.need("pooled_width")),
            sampling_ratio=max(int(n.attr("sample_num", 2)), 0),
            spatial_scale=float(n.need("spatial_scale")),
        )
    )
