"""Non-maximum suppression in its forms. The greedy walk is one operator of its own, so that shapes stay known under fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from torch_npu._environment import chip_mode
from torch_npu.operators.boxes.rotated import centred, intersection, iou
from torch_npu.operators.common.arguments import ErrCode, require, unsupported, wide

Array = npt.NDArray[Any]

_CLASS_LIMIT = 100  # boxes per class that the chip's kernel can hold


def _walk(order: Array, limit: int, suppressed: Callable[[int, Array], Array]) -> list[int]:
    """Take the best box, drop those that overlap it, and again."""
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        if len(order):
            order = order[~suppressed(best, order)]
    return kept


def _upright(boxes: Array, threshold: float) -> Callable[[int, Array], Array]:
    x0, x1 = np.minimum(boxes[:, 0], boxes[:, 2]), np.maximum(boxes[:, 0], boxes[:, 2])
    y0, y1 = np.minimum(boxes[:, 1], boxes[:, 3]), np.maximum(boxes[:, 1], boxes[:, 3])
    area = (x1 - x0) * (y1 - y0)

    def suppressed(best: int, rest: Array) -> Array:
        width = np.minimum(x1[best], x1[rest]) - np.maximum(x0[best], x0[rest])
        height = np.minimum(y1[best], y1[rest]) - np.maximum(y0[best], y0[rest])
        inter = width.clip(0) * height.clip(0)
        overlapping: Array = inter > threshold * (area[best] + area[rest] - inter)
        return overlapping

    return suppressed


def _turned(boxes: Tensor, threshold: float) -> Callable[[int, Array], Array]:
    def suppressed(best: int, rest: Array) -> Array:
        box, others = boxes[best], boxes[torch.from_numpy(rest)]
        return (iou(box, others, intersection(box, others)) > threshold).numpy()

    return suppressed


@torch.library.custom_op("softnpu::nms_kept", mutates_args=())
def _nms_kept(
    boxes: Tensor, scores: Tensor, iou_threshold: Tensor, score_threshold: Tensor, limit: int
) -> tuple[Tensor, Tensor]:
    """Per group of boxes [G, n, 4 or 5] with scores [G, n]: indices of the kept, best first and zero padded [G, limit]; counts [G]."""
    with torch.no_grad():
        host, points = wide(boxes).cpu(), wide(scores).cpu().numpy()
        lowest, threshold = float(score_threshold), float(iou_threshold)
    rows = np.zeros((len(points), limit), np.int32)
    counts = np.zeros(len(points), np.int32)
    for group, (some, score) in enumerate(zip(host, points, strict=True)):
        valid = np.flatnonzero(score > lowest)
        order = valid[np.argsort(-score[valid], kind="stable")]
        test = _upright(some.numpy(), threshold) if some.shape[1] == 4 else _turned(some, threshold)
        kept = _walk(order, limit, test)
        rows[group, : len(kept)] = kept
        counts[group] = len(kept)
    return torch.from_numpy(rows).to(boxes.device), torch.from_numpy(counts).to(boxes.device)


@_nms_kept.register_fake
def _(
    boxes: Tensor, scores: Tensor, iou_threshold: Tensor, score_threshold: Tensor, limit: int
) -> tuple[Tensor, Tensor]:
    groups = boxes.shape[0]
    return (
        boxes.new_empty((groups, limit), dtype=torch.int32),
        boxes.new_empty((groups,), dtype=torch.int32),
    )


def order(
    boxes: Tensor, scores: Tensor, overlap: Tensor | float, lowest: Tensor | float, limit: int
) -> tuple[Tensor, Tensor]:
    thresholds = [
        threshold if isinstance(threshold, Tensor) else torch.tensor(threshold, dtype=torch.float64)
        for threshold in (overlap, lowest)
    ]
    kept: tuple[Tensor, Tensor] = _nms_kept(boxes.detach(), scores.detach(), *thresholds, limit)
    return kept


def _check(name: str, boxes: Tensor, scores: Tensor, columns: int) -> None:
    require(
        boxes.dim() == 2 and boxes.shape[1] == columns,
        f"{name}: boxes must be [N, {columns}], not {list(boxes.shape)}",
    )
    require(
        scores.shape == boxes.shape[:1],
        f"{name}: {list(scores.shape)} scores for {boxes.shape[0]} boxes; there must be one for each",
    )


def npu_nms_v4(
    self: Tensor,
    scores: Tensor,
    max_output_size: int,
    iou_threshold: Tensor,
    scores_threshold: Tensor,
    pad_to_max_output_size: bool = False,
) -> tuple[Tensor, Tensor]:
    """The indices are padded to `max_output_size` whatever `pad_to_max_output_size` says, as on the chip."""
    _check("npu_nms_v4", self, scores, 4)
    limit = int(max_output_size)
    require(limit >= 0, f"npu_nms_v4: max_output_size must not be negative, but is {limit}", ErrCode.VALUE)
    for name, threshold in (("iou_threshold", iou_threshold), ("scores_threshold", scores_threshold)):
        require(threshold.numel() == 1, f"npu_nms_v4: {name} must hold one value, not {threshold.numel()}")
    indices, counts = order(self.unsqueeze(0), scores.unsqueeze(0), iou_threshold, scores_threshold, limit)
    return indices[0], counts[0]


def npu_nms_with_mask(input: Tensor, iou_threshold: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rows stay where they are; the mask marks those that greedy suppression by score (fifth column) keeps."""
    require(
        input.dim() == 2 and input.shape[1] == 8,
        f"npu_nms_with_mask: input must be [N, 8] (x0, y0, x1, y1, score, three unused), not {list(input.shape)}; "
        "pad other rows with zeros",
    )
    count = input.shape[0]
    boxes, scores = input[:, :4].unsqueeze(0), input[:, 4].unsqueeze(0)
    kept, counts = order(boxes, scores, float(iou_threshold), float("-inf"), count)
    positions = torch.arange(count, device=input.device, dtype=torch.int32)
    mask = torch.zeros(count + 1, dtype=torch.uint8, device=input.device)
    mask = mask.index_fill(0, torch.where(positions < counts, kept[0], count).long(), 1)
    return input[:, :5].clone(), positions, mask[:count]


def _batch_boxes(boxes: Tensor, scores: Tensor, transposed: bool) -> Tensor:
    """[B, N, q, 4] as [B * classes, N, 4], q being 1 or the number of classes."""
    require(boxes.dim() == 4, f"npu_batch_nms: boxes must be [B, N, q, 4], not {list(boxes.shape)}")
    boxes = boxes.permute(0, 3, 1, 2) if transposed else boxes
    require(scores.dim() == 3, f"npu_batch_nms: scores must be [B, N, classes], not {list(scores.shape)}")
    require(
        boxes.shape[3] == 4 and boxes.shape[:2] == scores.shape[:2] and boxes.shape[2] in (1, scores.shape[2]),
        f"npu_batch_nms: boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit: "
        "[B, N, 1 or classes, 4] and [B, N, classes]",
    )
    batch, count, classes = scores.shape
    return boxes.transpose(1, 2).expand(batch, classes, count, 4).reshape(batch * classes, count, 4)


def npu_batch_nms(
    self: Tensor,
    scores: Tensor,
    score_threshold: float,
    iou_threshold: float,
    max_size_per_class: int,
    max_total_size: int,
    change_coordinate_frame: bool = False,
    transpose_box: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs are rounded to float16, in which boxes, scores and classes come back; rows past the count are zero."""
    if change_coordinate_frame:
        raise unsupported("npu_batch_nms: change_coordinate_frame=True needs a clip window, which this operator lacks")
    require(
        0 < max_size_per_class <= _CLASS_LIMIT or (max_size_per_class > 0 and not chip_mode()),
        f"npu_batch_nms: max_size_per_class must be 1 to {_CLASS_LIMIT}, not {max_size_per_class}",
        ErrCode.VALUE,
    )
    require(max_total_size > 0, f"npu_batch_nms: max_total_size must be positive, not {max_total_size}", ErrCode.VALUE)
    boxes = _batch_boxes(self.half(), scores, transpose_box)
    batch, count, classes = scores.shape
    points = scores.half().transpose(1, 2).reshape(batch * classes, count)
    kept, counts = order(boxes, points, iou_threshold, score_threshold, max_size_per_class)
    kept = kept.long()
    there = torch.arange(max_size_per_class, device=self.device) < counts.unsqueeze(1)
    best = torch.where(there, wide(points).gather(1, kept), float("-inf")).reshape(batch, -1)
    size = min(max_total_size, best.shape[1])
    values, positions = best.topk(size, 1)
    good = values > float("-inf")
    chosen = boxes.gather(1, kept.unsqueeze(-1).expand(-1, -1, 4)).reshape(batch, -1, 4)
    chosen = chosen.gather(1, positions.unsqueeze(-1).expand(-1, -1, 4)).masked_fill(~good.unsqueeze(-1), 0)
    labels = (positions // max_size_per_class).masked_fill(~good, 0).half()
    rest = max_total_size - size
    return (
        torch.nn.functional.pad(chosen, (0, 0, 0, rest)),
        torch.nn.functional.pad(values.masked_fill(~good, 0).half(), (0, rest)),
        torch.nn.functional.pad(labels, (0, rest)),
        good.sum(1, dtype=torch.int32),
    )


def npu_nms_rotated(
    self: Tensor,
    scores: Tensor,
    iou_threshold: float,
    scores_threshold: float = 0,
    max_output_size: int = -1,
    mode: int = 0,
) -> tuple[Tensor, Tensor]:
    """Mode 0: boxes are centre, size, angle; 1: two corners and an angle. As many indices as boxes are kept, and their number [1]."""
    _check("npu_nms_rotated", self, scores, 5)
    require(mode in (0, 1), f"npu_nms_rotated: mode must be 0 (xywht) or 1 (xyxyt), not {mode}", ErrCode.VALUE)
    limit = self.shape[0] if max_output_size < 0 else min(max_output_size, self.shape[0])
    boxes = centred(wide(self.detach()), mode == 1)
    indices, counts = order(boxes.unsqueeze(0), scores.unsqueeze(0), iou_threshold, scores_threshold, limit)
    return indices[0, : int(counts[0])], counts
