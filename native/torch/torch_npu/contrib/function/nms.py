"""Suppression over all classes at once. Results have a fixed number of rows: those past the last box are zero."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu._errors import ErrCode, pta_error


def _check(name: str, boxes: Tensor, scores: Tensor) -> int:
    """The number of classes: one less than columns, since the last column is the background."""
    classes = scores.shape[-1] - 1
    if classes < 1 or boxes.shape[:-1] != scores.shape[:-1] or boxes.shape[-1] not in (4, 4 * classes):
        raise ValueError(
            f"{name}: boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit; they must be (…, n, 4) or "
            "(…, n, 4 * classes) and (…, n, classes + 1), the last column being the background"
            + pta_error(ErrCode.VALUE)
        )
    return classes


def npu_batched_multiclass_nms(
    multi_bboxes: Tensor,
    multi_scores: Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Of boxes (b, n, 4 or 4 * classes) and scores (b, n, classes + 1): boxes with scores (b, max_num, 5) and labels (b, max_num)."""
    classes = _check("npu_batched_multiclass_nms", multi_bboxes, multi_scores)
    scores = multi_scores[..., :classes]
    if score_factors is not None:
        scores = scores * score_factors.unsqueeze(-1)
    batch, count = multi_bboxes.shape[:2]
    boxes = multi_bboxes.reshape(batch, count, -1, 4)
    detections = torch.ops.npu.npu_batch_nms(boxes, scores, score_thr, nms_thr, max_num, max_num)
    dets = torch.cat((detections[0], detections[1].unsqueeze(-1)), -1).to(multi_bboxes.dtype)
    return dets, detections[2].long()


def npu_multiclass_nms(
    multi_bboxes: Tensor,
    multi_scores: Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The same for one image: boxes (n, …), scores (n, classes + 1) to (max_num, 5) and (max_num,)."""
    _check("npu_multiclass_nms", multi_bboxes, multi_scores)
    factors = None if score_factors is None else score_factors.unsqueeze(0)
    dets, labels = npu_batched_multiclass_nms(
        multi_bboxes.unsqueeze(0), multi_scores.unsqueeze(0), score_thr, nms_thr, max_num, factors
    )
    return dets[0], labels[0]
