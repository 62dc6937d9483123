"""Boxes: overlaps and coders with the arguments that detection code has at hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_npu._errors import ErrCode, pta_error

_MODES = {"iou": 0, "ptiou": 0, "iof": 1}


def _same_shape(name: str, first: Tensor, second: Tensor) -> None:
    if first.shape != second.shape:
        raise ValueError(
            f"{name}: shapes {list(first.shape)} and {list(second.shape)} differ; every box needs its partner"
            + pta_error(ErrCode.VALUE)
        )


def npu_iou(
    boxes1: Tensor,
    boxes2: Tensor,
    mode: str = "ptiou",
    is_normalized: bool = False,
    normalized_scale: float = 100.0,
) -> Tensor:
    """IoU of each box of `boxes1` with each of `boxes2`. Coordinates in 0..1 are scaled up, or the kernel's rounding would eat them."""
    if mode not in _MODES:
        raise ValueError(f"npu_iou: mode must be one of {', '.join(_MODES)}, not {mode!r}" + pta_error(ErrCode.VALUE))
    if is_normalized:
        boxes1, boxes2 = boxes1 * normalized_scale, boxes2 * normalized_scale
    return torch.ops.npu.npu_iou(boxes1, boxes2, _MODES[mode]).transpose(0, 1)


npu_ptiou = npu_iou


def npu_giou(boxes1: Tensor, boxes2: Tensor, is_permuted: bool = True) -> Tensor:
    """Generalised IoU [n, 1] of boxes (centre, width, height) [n, 4]; with is_permuted=False they are [4, n] already."""
    _same_shape("npu_giou", boxes1, boxes2)
    if is_permuted:
        boxes1, boxes2 = boxes1.transpose(0, 1), boxes2.transpose(0, 1)
    return torch.ops.npu.npu_giou(boxes1, boxes2, True, False, 0)


def npu_diou(boxes1: Tensor, boxes2: Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Distance IoU of boxes [4, n]; with `trans` they are centre, width, height."""
    return torch.ops.npu.npu_diou(boxes1, boxes2, trans, is_cross, mode)


def npu_ciou(boxes1: Tensor, boxes2: Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Complete IoU of boxes [4, n]; with `trans` they are centre, width, height."""
    return torch.ops.npu.npu_ciou(boxes1, boxes2, trans, is_cross, mode, True)


def npu_single_level_responsible_flags(
    featmap_size: Sequence[int], gt_bboxes: Tensor, stride: Sequence[int], num_base_anchors: int
) -> Tensor:
    """Which anchors of one feature map have the centre of a ground truth in their cell."""
    return torch.ops.npu.npu_anchor_response_flags(gt_bboxes, featmap_size, stride, num_base_anchors)


def npu_bbox_coder_encode_yolo(bboxes: Tensor, gt_bboxes: Tensor, stride: Tensor | int) -> Tensor:
    """YOLO targets of ground truths with respect to anchors; one stride for all or one for each."""
    _same_shape("npu_bbox_coder_encode_yolo", bboxes, gt_bboxes)
    if not isinstance(stride, Tensor):
        stride = torch.full((bboxes.shape[0],), stride, dtype=torch.int32, device=bboxes.device)
    return torch.ops.npu.npu_yolo_boxes_encode(bboxes, gt_bboxes, stride, False)


def _numbers(name: str, means: Sequence[float] | None, stds: Sequence[float] | None) -> tuple[float, ...]:
    first = (0.0,) * 4 if means is None else tuple(means)
    second = (1.0,) * 4 if stds is None else tuple(stds)
    if len(first) != 4 or len(second) != 4:
        raise ValueError(
            f"{name}: means and stds need four values each, not {len(first)} and {len(second)}"
            + pta_error(ErrCode.VALUE)
        )
    return first + second


def npu_bbox_coder_encode_xyxy2xywh(
    bboxes: Tensor,
    gt_bboxes: Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    is_normalized: bool = False,
    normalized_scale: float = 10000.0,
) -> Tensor:
    """Deltas of ground truths with respect to proposals. Coordinates in 0..1 are scaled up, as sizes are counted in pixels."""
    _same_shape("npu_bbox_coder_encode_xyxy2xywh", bboxes, gt_bboxes)
    numbers = _numbers("npu_bbox_coder_encode_xyxy2xywh", means, stds)
    if is_normalized:
        bboxes, gt_bboxes = bboxes * normalized_scale, gt_bboxes * normalized_scale
    return torch.ops.npu.npu_bounding_box_encode(bboxes, gt_bboxes, *numbers)


def npu_bbox_coder_decode_xywh2xyxy(
    bboxes: Tensor,
    pred_bboxes: Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    max_shape: Sequence[int] = (9999, 9999),
    wh_ratio_clip: float = 16 / 1000,
) -> Tensor:
    """Boxes from deltas, clipped to `max_shape` (height, width)."""
    _same_shape("npu_bbox_coder_decode_xywh2xyxy", bboxes, pred_bboxes)
    numbers = _numbers("npu_bbox_coder_decode_xywh2xyxy", means, stds)
    return torch.ops.npu.npu_bounding_box_decode(bboxes, pred_bboxes, *numbers, tuple(max_shape), wh_ratio_clip)
