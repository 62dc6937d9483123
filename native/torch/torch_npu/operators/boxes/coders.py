"""Detection boxes: coders and assignment; overlaps, suppression and regions come from the modules beside this one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, wide

_CELL_EPS = 1e-6  # keeps the offset inside its cell, and sizes above zero before the logarithm


def _check(name: str, first: Tensor, second: Tensor) -> None:
    require(
        first.dim() == 2 and first.shape[1] == 4 and first.shape == second.shape,
        f"{name}: both tensors must be [n, 4] of one length, not {list(first.shape)} and {list(second.shape)}",
    )


def _centres(boxes: Tensor, more: float) -> tuple[Tensor, Tensor]:
    """Centres and sizes of corner boxes; `more` is 1 where the last pixel belongs to the box."""
    low, high = boxes[:, :2], boxes[:, 2:]
    return (low + high) / 2, high - low + more


def npu_bounding_box_encode(
    anchor_box: Tensor,
    ground_truth_box: Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
) -> Tensor:
    """Faster R-CNN deltas with sizes of pixels (+1); a box with its corners swapped counts as if they were not."""
    _check("npu_bounding_box_encode", anchor_box, ground_truth_box)
    anchors, targets = wide(anchor_box), wide(ground_truth_box)
    centre, size = _centres(anchors, 1)
    target_centre, target_size = _centres(targets, 1)
    deltas = torch.cat(((target_centre - centre) / size, (target_size / size).abs().log()), 1)
    means = deltas.new_tensor((means0, means1, means2, means3))
    return ((deltas - means) / deltas.new_tensor((stds0, stds1, stds2, stds3))).to(anchor_box.dtype)


def npu_bounding_box_decode(
    rois: Tensor,
    deltas: Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
    max_shape: Sequence[int],
    wh_ratio_clip: float,
) -> Tensor:
    """`max_shape` is (height, width); one number stands for both."""
    _check("npu_bounding_box_decode", rois, deltas)
    require(wh_ratio_clip > 0, f"npu_bounding_box_decode: wh_ratio_clip must be positive, not {wh_ratio_clip}")
    require(len(max_shape) in (1, 2), f"npu_bounding_box_decode: max_shape must be (h, w), not {list(max_shape)}")
    centre, size = _centres(wide(rois), 1)
    moves = wide(deltas) * centre.new_tensor((stds0, stds1, stds2, stds3))
    moves = moves + centre.new_tensor((means0, means1, means2, means3))
    bound = abs(math.log(wh_ratio_clip))
    middle = centre + moves[:, :2] * size
    half = size * moves[:, 2:].clamp(-bound, bound).exp() / 2
    low, high = middle - half + 0.5, middle + half - 0.5
    height, width = max_shape[0], max_shape[-1]
    x = torch.stack((low[:, 0], high[:, 0]), 1).clamp(0, width - 1)
    y = torch.stack((low[:, 1], high[:, 1]), 1).clamp(0, height - 1)
    return torch.stack((x[:, 0], y[:, 0], x[:, 1], y[:, 1]), 1).to(rois.dtype)


def npu_yolo_boxes_encode(self: Tensor, gt_bboxes: Tensor, stride: Tensor, performance_mode: bool = False) -> Tensor:
    """`performance_mode` trades accuracy for speed on the chip; here both ways are the accurate one."""
    _check("npu_yolo_boxes_encode", self, gt_bboxes)
    require(
        stride.numel() in (1, self.shape[0]),
        f"npu_yolo_boxes_encode: {stride.numel()} strides for {self.shape[0]} boxes; there must be one for each",
    )
    centre, size = _centres(wide(self), 0)
    target_centre, target_size = _centres(wide(gt_bboxes), 0)
    steps = stride.reshape(-1, 1).to(centre.dtype)
    offset = ((target_centre - centre) / steps + 0.5).clamp(_CELL_EPS, 1 - _CELL_EPS)
    return torch.cat((offset, (target_size / size).clamp(min=_CELL_EPS).log()), 1).to(self.dtype)


def npu_anchor_response_flags(
    self: Tensor, featmap_size: Sequence[int], stride: Sequence[int], num_base_anchors: int
) -> Tensor:
    """`featmap_size` is (height, width), `stride` (across, down); boxes whose centre lies outside the map flag nothing."""
    name = "npu_anchor_response_flags"
    require(self.dim() == 2 and self.shape[1] == 4, f"{name}: boxes must be [n, 4], not {list(self.shape)}")
    require(num_base_anchors > 0, f"{name}: num_base_anchors must be positive, not {num_base_anchors}", ErrCode.VALUE)
    require(min(stride) > 0, f"{name}: stride must be positive, not {list(stride)}", ErrCode.VALUE)
    height, width = featmap_size
    centre, _ = _centres(wide(self), 0)
    column = (centre[:, 0] / stride[0]).floor().long()
    row = (centre[:, 1] / stride[1]).floor().long()
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    cells = torch.where(inside, row * width + column, height * width)
    flags = torch.zeros(height * width + 1, dtype=torch.uint8, device=self.device).index_fill(0, cells, 1)
    return flags[:-1].unsqueeze(1).expand(-1, num_base_anchors).reshape(-1)


def npu_grid_assign_positive(
    self: Tensor,
    overlaps: Tensor,
    box_responsible_flags: Tensor,
    max_overlaps: Tensor,
    argmax_overlaps: Tensor,
    gt_max_overlaps: Tensor,
    gt_argmax_overlaps: Tensor,
    num_gts: int,
    pos_iou_thr: float,
    min_pos_iou: float,
    gt_max_assign_all: bool,
) -> Tensor:
    """Where several ground truths claim a box the last one has it, as when they are assigned one after the other."""
    name = "npu_grid_assign_positive"
    require(
        overlaps.dim() == 2 and overlaps.shape[1] == self.shape[0],
        f"{name}: overlaps must be [gts, {self.shape[0]}], not {list(overlaps.shape)}",
    )
    responsible = box_responsible_flags != 0
    good = (max_overlaps > pos_iou_thr) & responsible
    assigned = torch.where(good, (argmax_overlaps + 1).to(self.dtype), self)
    count = min(num_gts, overlaps.shape[0])
    if count == 0:
        return assigned
    best, overlaps = gt_max_overlaps[:count].unsqueeze(1), overlaps[:count]
    if gt_max_assign_all:
        claims = overlaps == best
    else:
        boxes = torch.arange(self.shape[0], device=self.device)
        claims = boxes == gt_argmax_overlaps[:count].unsqueeze(1)
    claims = claims & responsible & (best > min_pos_iou)
    numbers = torch.arange(1, count + 1, device=self.device).unsqueeze(1)
    claimed = (claims * numbers).amax(0)
    return torch.where(claimed > 0, claimed.to(self.dtype), assigned)
