"""Rotated boxes: exact intersections of pairs, overlaps, and the deltas of a box coder. Angles are degrees, as in OpenCV."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, wide

_CHUNK = 1 << 18  # pairs at a time: some forty numbers each
_TINY = 1e-9


def centred(boxes: Tensor, corners: bool) -> Tensor:
    """x, y, width, height, angle in the last dimension, from two corners and an angle where they are given so."""
    if not corners:
        return boxes
    low, high, angle = boxes[..., :2], boxes[..., 2:4], boxes[..., 4:]
    return torch.cat(((low + high) / 2, high - low, angle), -1)


def _crossings(start: Tensor, step: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
    """When a point on its way from `start` enters and leaves |coordinate| <= bound, within 0..1."""
    flat = step == 0
    safe = torch.where(flat, torch.ones_like(step), step)
    at_lower, at_upper = ((-bound - start) / safe).clamp(0, 1), ((bound - start) / safe).clamp(0, 1)
    nothing = torch.zeros_like(step)
    return torch.where(flat, nothing, torch.minimum(at_lower, at_upper)), torch.where(
        flat, nothing, torch.maximum(at_lower, at_upper)
    )


def intersection(first: Tensor, second: Tensor) -> Tensor:
    """Area common to boxes [..., 5], pair by pair with broadcasting.

    In the frame of the second box, moving every point outside of it to its border turns the outline of the first into that of the
    intersection (paths along the border enclose nothing). Its area is the integral of y dx: four edges, each straight between the
    times when it crosses a border, so nothing is approximated and no corner has to be sorted.
    """
    turn, back = first[..., 4].deg2rad(), second[..., 4].deg2rad()
    half_w, half_h = first[..., 2] / 2, first[..., 3] / 2
    away = first[..., :2] - second[..., :2]
    to_x = (away[..., 0] * back.cos() + away[..., 1] * back.sin()).unsqueeze(-1)
    to_y = (away[..., 1] * back.cos() - away[..., 0] * back.sin()).unsqueeze(-1)
    cos, sin = (turn - back).cos().unsqueeze(-1), (turn - back).sin().unsqueeze(-1)
    across = torch.stack((-half_w, half_w, half_w, -half_w), -1)
    down = torch.stack((-half_h, -half_h, half_h, half_h), -1)
    x, y = across * cos - down * sin + to_x, across * sin + down * cos + to_y
    way_x, way_y = x.roll(-1, -1) - x, y.roll(-1, -1) - y
    right, bottom = (second[..., 2] / 2).unsqueeze(-1), (second[..., 3] / 2).unsqueeze(-1)
    low, high = _crossings(x, way_x, right)
    enter, leave = (torch.minimum(torch.maximum(time, low), high) for time in _crossings(y, way_y, bottom))
    times = torch.stack((low, enter, leave, high))
    heights = torch.maximum(torch.minimum(y + times * way_y, bottom), -bottom)
    return ((heights[1:] + heights[:-1]) * (times[1:] - times[:-1]) * way_x).sum((0, -1)).abs() / 2


def _all_pairs(first: Tensor, second: Tensor) -> Tensor:
    """[B, N, 5] and [B, K, 5] to [B, N, K], some rows at a time."""
    rows = max(1, _CHUNK // max(1, second.shape[0] * second.shape[1]))
    parts = [intersection(part.unsqueeze(2), second.unsqueeze(1)) for part in torch.split(first, rows, 1)]
    return torch.cat(parts, 1)


def _check(name: str, boxes: Tensor, query: Tensor) -> None:
    for argument, tensor in (("self", boxes), ("query_boxes", query)):
        require(
            tensor.dim() == 3 and tensor.shape[2] == 5,
            f"{name}: {argument} must be [B, n, 5], not {list(tensor.shape)}",
        )
    require(boxes.shape[0] == query.shape[0], f"{name}: batches of {boxes.shape[0]} and {query.shape[0]} differ")


def npu_rotated_overlaps(self: Tensor, query_boxes: Tensor, trans: bool = False) -> Tensor:
    """`trans` means boxes of two corners and an angle, else centre, size and angle."""
    _check("npu_rotated_overlaps", self, query_boxes)
    with torch.no_grad():
        boxes, query = centred(wide(self), trans), centred(wide(query_boxes), trans)
        return _all_pairs(boxes, query).to(self.dtype)


def iou(boxes: Tensor, query: Tensor, inter: Tensor, over_first: bool = False) -> Tensor:
    """Intersections over unions, or over the areas of the first boxes."""
    of_boxes, of_query = boxes[..., 2] * boxes[..., 3], query[..., 2] * query[..., 3]
    below = of_boxes.expand_as(inter) if over_first else of_boxes + of_query - inter
    return inter / below.clamp(min=_TINY)


def npu_rotated_iou(
    self: Tensor,
    query_boxes: Tensor,
    trans: bool = False,
    mode: int = 0,
    is_cross: bool = True,
    v_threshold: float = 0.0,
    e_threshold: float = 0.0,
) -> Tensor:
    """The thresholds loosen the chip's search for corners and edges; polygons are cut exactly here and need none.

    Mode 1 divides by the area of the boxes in `self`. Without `is_cross` box i meets query box i: the result is [B, N].
    """
    _check("npu_rotated_iou", self, query_boxes)
    require(mode in (0, 1), f"npu_rotated_iou: mode must be 0 (iou) or 1 (iof), not {mode}", ErrCode.VALUE)
    require(
        v_threshold >= 0 and e_threshold >= 0,
        f"npu_rotated_iou: thresholds must not be negative, but are {v_threshold} and {e_threshold}",
        ErrCode.VALUE,
    )
    require(
        is_cross or self.shape[1] == query_boxes.shape[1],
        f"npu_rotated_iou: {self.shape[1]} boxes and {query_boxes.shape[1]} query boxes cannot be paired one by one",
    )
    with torch.no_grad():
        boxes, query = centred(wide(self), trans), centred(wide(query_boxes), trans)
        if is_cross:
            return iou(boxes.unsqueeze(2), query.unsqueeze(1), _all_pairs(boxes, query), mode == 1).to(self.dtype)
        return iou(boxes, query, intersection(boxes, query), mode == 1).to(self.dtype)


def _columns(name: str, boxes: Tensor, other: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [B, 5, N] as x, y, w, h, angle; the other tensor; the weights, ready to multiply."""
    require(boxes.dim() == 3 and boxes.shape[1] == 5, f"{name}: boxes must be [B, 5, N], not {list(boxes.shape)}")
    require(boxes.shape == other.shape, f"{name}: shapes {list(boxes.shape)} and {list(other.shape)} differ")
    require(weight.numel() == 5, f"{name}: weight must hold 5 values, not {weight.numel()}")
    return centred(wide(boxes).transpose(1, 2), True), wide(other).transpose(1, 2), wide(weight).reshape(5)


def npu_rotated_box_encode(self: Tensor, gt_bboxes: Tensor, weight: Tensor) -> Tensor:
    """Boxes are two corners and an angle; the angle's delta is that of the tangents."""
    anchors, targets, weights = _columns("npu_rotated_box_encode", self, gt_bboxes, weight)
    targets = centred(targets, True)
    size = anchors[..., 2:4]
    move = (targets[..., :2] - anchors[..., :2]) / size
    grow = (targets[..., 2:4] / size).log()
    turn = targets[..., 4:].deg2rad().tan() - anchors[..., 4:].deg2rad().tan()
    return (torch.cat((move, grow, turn), -1) * weights).transpose(1, 2).to(self.dtype)


def npu_rotated_box_decode(self: Tensor, deltas: Tensor, weight: Tensor) -> Tensor:
    anchors, moves, weights = _columns("npu_rotated_box_decode", self, deltas, weight)
    moves = moves / weights
    centre = anchors[..., :2] + moves[..., :2] * anchors[..., 2:4]
    half = anchors[..., 2:4] * moves[..., 2:4].exp() / 2
    angle = (anchors[..., 4:].deg2rad().tan() + moves[..., 4:]).atan().rad2deg()
    return torch.cat((centre - half, centre + half, angle), -1).transpose(1, 2).to(self.dtype)
